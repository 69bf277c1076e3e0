#include "llmtrain/launch/coordinator.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <thread>

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/launch/missed_steps.hpp"
#include "llmtrain/launch/restart_history.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/monitor/recent_steps.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// The leader without processes and sockets: reports in, orders and membership changes out.

using namespace llmtrain;

namespace {

constexpr Instant kNow{10'000};

struct Silent : EventSink {
  void on(const Event& event) override { events.push_back(event); }
  std::vector<Event> events;
};

class Leader {
 public:
  explicit Leader(std::vector<std::string> topology_order = {},
                  const std::function<void(CoordinatorOptions&)>& change = {})
      : run_(directory_.path()) {
    REQUIRE(make_run_directory(*files_, run_).ok());
    CoordinatorOptions options;
    options.supervisor.num_workers = 4;
    options.supervisor.num_nodes = 2;
    options.procs_per_node = 2;
    options.epoch = 7;
    options.host = "alpha";
    options.topology_order = std::move(topology_order);
    options.in_background = true;
    options.find_checkpoint = [](int) { return Result<ResumePoint>(ResumePoint{}); };
    if (change) change(options);
    coordinator.emplace(std::move(options), run_, *files_, sink);
    coordinator->start(kNow);
  }
  ~Leader() { coordinator.reset(); }  // its search still uses the files

  // Both nodes are there, and the search for a checkpoint is over: the orders to start.
  std::vector<StartOrder> start() {
    coordinator->receive(kNow, 0, NodeReady{});
    coordinator->node_joined(kNow, 1, "beta");
    CHECK(orders<ClearOrder>(1).size() == 1);
    coordinator->receive(kNow, 1, NodeReady{});
    return started();
  }
  std::vector<StartOrder> started() {
    std::vector<StartOrder> found;
    while (found.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      coordinator->tick(kNow);
      for (AddressedOrder& order : coordinator->take_orders())
        if (auto* start = std::get_if<StartOrder>(&order.order)) found.push_back(std::move(*start));
    }
    return found;
  }
  template <class T>
  std::vector<T> orders(int node) {
    std::vector<T> found;
    for (AddressedOrder& order : coordinator->take_orders())
      if (T* wanted = std::get_if<T>(&order.order); wanted != nullptr && order.node == node)
        found.push_back(std::move(*wanted));
    return found;
  }
  void killed(int incarnation, int rank) {
    WorkerLeft left;
    left.incarnation = incarnation;
    left.end = {.rank = rank, .pid = 1, .signaled = true, .code = 9, .cause = "signal 9", .by_agent = true};
    left.note.rank = rank;
    coordinator->receive(kNow, rank / 2, left);
  }

  const RunDir& run() const { return run_; }

  Silent sink;
  std::optional<Coordinator> coordinator;

 private:
  test::TemporaryDirectory directory_;
  std::unique_ptr<FileSystem> files_ = make_posix_filesystem();
  RunDir run_;
};

// Of four ranks that do the same work.
std::string resolved_yaml_of_two_nodes() {
  const std::string text =
      "version: 1\n"
      "model: {vocab_size: 64, hidden_size: 32, num_layers: 1, num_heads: 2}\n"
      "data: {seq_length: 8, train: [{path: synthetic}]}\n"
      "parallelism: {dp: 4}\n"
      "batch: {micro_batch_size: 1}\n"
      "train: {duration: 200 steps}\n"
      "launch: {nodes: 2, procs_per_node: 2}\n";
  const JobReport report = check_job_text(text, "job.yaml", {});
  REQUIRE(report.job);
  return report.job->resolved_yaml;
}

}  // namespace

TEST_CASE("coordinator: every node gets its ranks, and the epoch", "[launch]") {
  Leader leader;
  const auto orders = leader.start();
  REQUIRE(orders.size() == 2);
  for (int node = 0; node < 2; ++node) {
    CHECK(orders[node].node == node);
    CHECK(orders[node].first_rank == 2 * node);
    CHECK(orders[node].num_workers == 2);
    CHECK(orders[node].world_size == 4);
    CHECK(orders[node].epoch == 7);
  }
}

TEST_CASE("coordinator: a successor writes down that the leader was lost, and what the others saw",
          "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.node = 0;
    options.successor = true;
    options.supervisor.first_incarnation = 3;
  });
  leader.coordinator->node_lost(kNow, 1, "it led the epoch before, and was lost");
  CHECK_FALSE(std::filesystem::exists(leader.run().incident(0)));  // node 0 has not said yet what it saw
  RankNote note{.rank = 0, .node = 0, .step = 41, .phase = "reduce"};
  note.collective = CollectiveNote{.count = 7, .group = "dp", .op = "all_reduce", .sequence = 77};
  leader.coordinator->receive(kNow, 0, RanksSeen{1, {{.rank = 1, .step = 99}}});  // of another one
  leader.coordinator->receive(kNow, 0, RanksSeen{2, {note}});
  WorkerLeft left;
  left.incarnation = 2;
  left.end = {.rank = 1, .pid = 1, .signaled = true, .code = 9, .cause = "signal 9", .by_agent = true};
  left.note = {.rank = 1, .node = 0, .step = 40};
  leader.coordinator->receive(kNow, 0, left);
  leader.start();
  std::ifstream file(leader.run().incident(0));
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const char* part : {"\"kind\": \"node_lost\"",
                           "\"incarnation\": 2",
                           "\"node\": 1",
                           "node 0 (alpha) leads",
                           "\"sequence\": 77",
                           "\"lost_steps\": 41",
                           "signal 9"}) {
    INFO(text << "\n" << part);
    CHECK(text.find(part) != std::string::npos);
  }
  CHECK(text.find("\"step\": 99") == std::string::npos);
}

// A leader stood still after step 3; its workers saved step 5, and nobody wrote down what came between.
TEST_CASE("coordinator: a successor writes down the steps that its leader missed, once", "[launch]") {
  const auto files = make_posix_filesystem();
  std::string path;
  Leader leader({}, [&](CoordinatorOptions& options) {
    options.successor = true;
    options.supervisor.first_incarnation = 3;
    options.find_checkpoint = [&](int) { return Result<ResumePoint>(ResumePoint{path, 5, {}, {}}); };
  });
  RecentSteps recent;
  std::ofstream metrics(leader.run().metrics());
  for (const std::int64_t step : {2, 3, 4, 5}) {
    StepReport report;
    report.step = step;
    recent.saw({1.5, 2, report});
    if (step <= 3) metrics << to_metrics_line(report, 1.5, 2) << '\n';
  }
  metrics << "{\"step\": 4, \"lo" << std::flush;
  const float value = 1;
  const ShardFile shard{"weights",
                        {whole_tensor({"w", DType::kFp32, {1}}, std::as_bytes(std::span(&value, 1)))}};
  const SaveTarget target{leader.run().checkpoints().string(), 5, 2, 0, 1};
  auto records = write_shards(*files, target, std::span(&shard, 1));
  REQUIRE(records.ok());
  CommitRequest request;
  request.records = std::move(records).value();
  const bool is_readable = GENERATE(true, false);
  request.extra_files = {{RecentSteps::kFile, is_readable ? recent.text() : "{\"of\": \"another build\"}\n"}};
  const auto committed = commit(*files, target, std::move(request));
  REQUIRE(committed.ok());
  path = committed->path;

  leader.start();
  std::vector<std::pair<int, std::int64_t>> written;
  for (const Event& event : leader.sink.events)
    if (const auto* step = std::get_if<StepReport>(&event.body))
      written.emplace_back(event.incarnation, step->step);
  const std::vector<std::pair<int, std::int64_t>> missed{{2, 4}, {2, 5}};
  CHECK(written == (is_readable ? missed : decltype(missed){}));
  if (!is_readable) return;  // and it has started all the same
  std::ofstream(leader.run().metrics(), std::ios::app) << "ss\": 1}\n"
                                                       << to_metrics_line(StepReport{5}, 1.5, 2) << '\n';
  const auto again = find_missed_steps(*files, path, leader.run().metrics().string());
  REQUIRE(again.ok());
  CHECK(again->empty());
}

TEST_CASE("coordinator: the loss of a leader counts, and what came before it too", "[launch]") {
  for (const int budget : {2, 1}) {
    Leader leader({}, [&](CoordinatorOptions& options) {
      options.successor = true;
      options.supervisor.max_restarts = budget;
      options.supervisor.history = RestartHistory{{Milliseconds{1'000}}, 6, 1};
    });
    leader.coordinator->node_lost(kNow, 1, "it led the epoch before, and was lost");
    CHECK(leader.coordinator->done() == (budget == 1));
    if (leader.coordinator->done()) CHECK(leader.coordinator->code() == ExitCode::kRestartBudget);
    const auto files = make_posix_filesystem();
    const auto history = read_restart_history(*files, leader.run().restarts().string());
    REQUIRE(history.ok());
    CHECK(history->ages.size() == static_cast<std::size_t>(budget));
    CHECK(history->best_step == 6);
  }
}

TEST_CASE("coordinator: a file of restarts that nobody wrote is refused", "[launch]") {
  test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const std::string path = directory.path() + "/restarts.json";
  CHECK(read_restart_history(*files, path).value() == RestartHistory());
  for (const char* text : {"", "[]", "{\"version\":2}", R"({"version":1,"ages_ms":["x"]})"}) {
    REQUIRE(write_file_durably(*files, path, text).ok());
    CHECK_FALSE(read_restart_history(*files, path).ok());
  }
}

TEST_CASE("coordinator: the fabric's order of hosts decides whose ranks come first", "[launch]") {
  Leader leader({"beta", "alpha"});
  const auto orders = leader.start();
  REQUIRE(orders.size() == 2);
  CHECK(orders[0].node == 1);
  CHECK(orders[0].first_rank == 0);
  CHECK(orders[1].node == 0);
  CHECK(orders[1].first_rank == 2);
}

TEST_CASE("coordinator: a lost node asks for a spare, kills the others, and starts again with one that comes",
          "[launch]") {
  Leader leader;
  leader.start();
  leader.coordinator->node_lost(kNow, 1, "its connection was closed");
  const auto changes = leader.coordinator->take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].kind == MembershipChange::Kind::kPromoteSpare);
  CHECK(leader.orders<KillOrder>(0).size() == 1);
  leader.killed(0, 0);
  leader.killed(0, 1);
  leader.killed(0, 3);  // of a node that is gone: nobody waits for it
  leader.coordinator->node_joined(kNow, 1, "gamma");
  leader.coordinator->receive(kNow, 1, NodeReady{});
  const auto again = leader.started();
  REQUIRE(again.size() == 2);
  CHECK(again[0].incarnation == 1);
}

TEST_CASE("coordinator: a stopped agent is given up at once, one behind a cut link when steps stand still",
          "[launch]") {
  Leader leader;
  leader.start();
  SECTION("stopped") {
    leader.coordinator->node_silent(kNow, 1, true);
    const auto changes = leader.coordinator->take_changes();
    REQUIRE(changes.size() == 2);
    CHECK(changes[0].kind == MembershipChange::Kind::kGiveUp);
    CHECK(leader.orders<KillOrder>(0).size() == 1);
  }
  SECTION("cut off") {
    leader.coordinator->node_silent(kNow, 1, false);
    const auto step = [&](Instant now, std::int64_t number) {
      RankNote note;
      note.step = number;
      leader.coordinator->receive(now, 0, RanksSeen{0, {note}});
      leader.coordinator->tick(now);
      return leader.coordinator->take_changes();
    };
    CHECK(step(kNow + Milliseconds{4'000}, 1).empty());
    CHECK(step(kNow + Milliseconds{8'000}, 2).empty());
    CHECK(step(kNow + Milliseconds{12'999}, 2).empty());
    const auto changes = step(kNow + Milliseconds{13'000}, 2);
    REQUIRE(changes.size() == 2);
    CHECK(changes[0].kind == MembershipChange::Kind::kGiveUp);
    CHECK(changes[0].node == 1);
  }
  SECTION("cut off while a step takes half a minute") {
    StepReport step;
    step.step = 1;
    step.step_ms = 30'000;
    leader.coordinator->receive(kNow, 0, WorkerSaid{0, 0, Event{0, 0, step}});
    leader.coordinator->node_silent(kNow + Milliseconds{4'000}, 1, false);
    const auto given_up = [&](Instant now) {
      leader.coordinator->tick(now);
      return !leader.coordinator->take_changes().empty();
    };
    CHECK_FALSE(given_up(kNow + Milliseconds{40'000}));
    CHECK(given_up(kNow + Milliseconds{64'000}));
  }
}

TEST_CASE("coordinator: what other hosts report is dated by the leader's clock", "[launch]") {
  Leader leader;
  leader.start();
  const double a_day_off = 86'400;
  for (int node = 0; node < 2; ++node)
    leader.coordinator->receive(kNow, node, WorkerSaid{0, 2 * node, Event{a_day_off, 0, MemoryReport{}}});
  std::vector<double> times;
  for (const Event& event : leader.sink.events)
    if (std::holds_alternative<MemoryReport>(event.body)) times.push_back(event.time);
  REQUIRE(times.size() == 2);
  CHECK(times[0] == Approx(a_day_off).margin(1));  // of this host, at the moment it was said
  CHECK(times[1] > 1e9);
}

TEST_CASE("coordinator: ranks of a node that is not heard are not taken for hung", "[launch]") {
  const bool is_silent = GENERATE(true, false);
  const Milliseconds limit{1'000};
  Leader leader({}, [&](CoordinatorOptions& options) {
    options.deadlines =
        DeadlineOptions{.least = limit, .startup_timeout = limit, .collective_timeout = limit};
  });
  leader.start();
  const auto seen = [&](Instant now, std::vector<int> ranks, std::int64_t step) {
    RanksSeen report{.incarnation = 0, .notes = {}};
    for (const int rank : ranks) {
      RankNote note;
      note.rank = rank;
      note.step = step;
      note.phase = "forward";
      report.notes.push_back(note);
    }
    leader.coordinator->receive(now, ranks.front() / 2, report);
  };
  seen(kNow, {0, 1}, 2);
  seen(kNow, {2, 3}, 2);
  if (is_silent) leader.coordinator->node_silent(kNow, 1, false);
  for (int second = 1; second <= 4; ++second) {
    const Instant now = kNow + Milliseconds{900} * second;
    seen(now, {0, 1}, 2 + second);
    if (!is_silent) seen(now, {2, 3}, 2);  // where they have stood all the time
    leader.coordinator->tick(now);
  }
  CHECK(leader.orders<KillOrder>(0).empty() == is_silent);
}

TEST_CASE("coordinator: one signal on every node is one stop; a second on one of them is impatience",
          "[launch]") {
  Leader leader;
  leader.start();
  leader.coordinator->receive(kNow, 0, StopAsked{"SIGTERM"});
  leader.coordinator->receive(kNow, 1, StopAsked{"SIGTERM"});
  const auto orders = leader.coordinator->take_orders();
  REQUIRE(orders.size() == 2);
  for (const AddressedOrder& order : orders) CHECK(std::holds_alternative<StopOrder>(order.order));
  leader.coordinator->receive(kNow, 1, StopAsked{"SIGTERM"});
  CHECK(leader.orders<KillOrder>(1).size() == 1);
}

TEST_CASE("coordinator: a signal on one node of an elastic job is for that node alone", "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.supervisor.fewer_nodes = {1};
    options.resolve_for = [](int) -> Result<std::string> { return std::string(); };
  });
  leader.start();
  leader.coordinator->receive(kNow, 1, StopAsked{"SIGTERM"});
  CHECK(leader.orders<StopOrder>(0).size() == 1);
  SECTION("which is let go when its workers are gone, and is no failure") {
    for (const int rank : {0, 1, 2, 3}) {
      leader.coordinator->receive(kNow, 1, StopAsked{"SIGTERM"});  // impatience changes nothing
      WorkerLeft left;
      left.end = {.rank = rank, .pid = 1, .code = 81};
      leader.coordinator->receive(kNow, rank / 2, left);
    }
    leader.coordinator->tick(kNow);
    CHECK(leader.orders<FinishOrder>(1) ==
          std::vector<FinishOrder>{{75, "this node leaves, and the others go on"}});
    leader.coordinator->node_lost(kNow, 1, "it left in good order");
    leader.coordinator->tick(kNow);
    CHECK(leader.orders<FinishOrder>(1).empty());
    CHECK_FALSE(std::filesystem::exists(leader.run().incident(0)));
    CHECK_FALSE(leader.coordinator->done());
  }
  SECTION("unless too few would be left") {
    leader.coordinator->receive(kNow, 0, StopAsked{"SIGTERM"});
    for (const int rank : {0, 1, 2, 3}) {
      WorkerLeft left;
      left.end = {.rank = rank, .pid = 1, .code = 81};
      leader.coordinator->receive(kNow, rank / 2, left);
    }
    CHECK(leader.coordinator->done());
    CHECK(leader.coordinator->code() == ExitCode::kPreempted);
  }
}

TEST_CASE("coordinator: the key-value store reaches across nodes, for one incarnation", "[launch]") {
  Leader leader;
  leader.start();
  const StoreRequest get{.op = StoreRequest::Op::kGet, .id = 5, .key = "k", .value = {}, .timeout_ms = 1000};
  const StoreRequest set{.op = StoreRequest::Op::kSet, .id = 6, .key = "k", .value = std::string("\0v", 2)};
  leader.coordinator->receive(kNow, 1, StoreAsked{0, 3, encode(get)});
  CHECK(leader.orders<StoreAnswer>(1).empty());
  leader.coordinator->receive(kNow, 0, StoreAsked{9, 0, encode(set)});  // of another incarnation
  CHECK(leader.orders<StoreAnswer>(1).empty());
  leader.coordinator->receive(kNow, 0, StoreAsked{0, 0, encode(set)});
  const auto answers = leader.orders<StoreAnswer>(1);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].rank == 3);
  CHECK(decode_store_reply(answers[0].reply)->value == std::string("\0v", 2));
}

TEST_CASE("coordinator: an elastic job is cut again for the nodes that are left", "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.resolved_yaml = "for two";
    options.supervisor.fewer_nodes = {1};
    options.resolve_for = [](int nodes) -> Result<std::string> { return "for " + std::to_string(nodes); };
  });
  CHECK(leader.start()[0].spec_yaml == "for two");
  leader.coordinator->node_lost(kNow, 1, "its connection was closed");
  leader.killed(0, 0);
  leader.killed(0, 1);
  leader.coordinator->take_orders();
  const Instant later = kNow + SupervisorOptions{}.shrink_grace;
  leader.coordinator->tick(later);
  const auto small = leader.started();
  REQUIRE(small.size() == 1);
  CHECK(small[0].node == 0);
  CHECK(small[0].nodes == 1);
  CHECK(small[0].world_size == 2);
  CHECK(small[0].spec_yaml == "for 1");

  leader.coordinator->node_joined(later, 1, "beta");
  leader.coordinator->receive(later, 1, NodeReady{});
  CHECK(leader.orders<StopOrder>(0).empty());
  WorkerSaid saved;
  saved.incarnation = 1;
  saved.event.body = CheckpointSaved{5, "step-00000005", 1, 1};
  leader.coordinator->receive(later, 0, saved);
  CHECK(leader.orders<StopOrder>(0).size() == 1);
  for (const int rank : {0, 1}) {
    WorkerLeft left;
    left.incarnation = 1;
    left.end = {.rank = rank, .pid = 1, .code = 81, .cause = "stopped"};
    leader.coordinator->receive(later, 0, left);
  }
  const auto whole = leader.started();
  REQUIRE(whole.size() == 2);
  CHECK(whole[1].world_size == 4);
  CHECK(whole[1].spec_yaml == "for two");
}

TEST_CASE("coordinator: a node that is to blame is excluded before a spare is asked for", "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.supervisor.on_failure.crash = FailureAction::kRestartExcludingNode;
  });
  leader.start();
  WorkerLeft left;
  left.end = {.rank = 2, .pid = 1, .signaled = true, .code = 11, .cause = "signal 11 (SIGSEGV)"};
  left.note.rank = 2;
  left.note.node = 1;
  leader.coordinator->receive(kNow, 1, left);
  for (const int rank : {0, 1, 3}) leader.killed(0, rank);
  const auto changes = leader.coordinator->take_changes();
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].kind == MembershipChange::Kind::kExclude);
  CHECK(changes[0].node == 1);
  CHECK(changes[0].reason.find("node 1 (beta) is left out") != std::string::npos);
  CHECK(changes[1].kind == MembershipChange::Kind::kPromoteSpare);
}

TEST_CASE("coordinator: a leader that another one has followed starts nothing, but its number is taken",
          "[launch]") {
  Leader leader;
  std::ofstream(leader.run().control() / "epoch-8") << "x";
  leader.coordinator->receive(kNow, 0, NodeReady{});
  leader.coordinator->node_joined(kNow, 1, "beta");
  leader.coordinator->receive(kNow, 1, NodeReady{});
  while (!leader.coordinator->done()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    leader.coordinator->tick(kNow);
  }
  CHECK(leader.coordinator->code() == ExitCode::kHeld);
  for (const int node : {0, 1}) CHECK(leader.orders<StartOrder>(node).empty());
  const auto files = make_posix_filesystem();
  CHECK(next_incarnation(*files, leader.run()).value() == 1);
}

TEST_CASE(
    "coordinator: an incarnation that is cancelled while its checkpoint is searched for is charged once",
    "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.supervisor.fewer_nodes = {1};
    options.supervisor.shrink_grace = Milliseconds{0};
    options.resolve_for = [](int) -> Result<std::string> { return std::string(); };
  });
  leader.coordinator->receive(kNow, 0, NodeReady{});  // alone at once
  leader.started();
  leader.coordinator->node_joined(kNow, 1, "beta");
  leader.coordinator->receive(kNow, 1, NodeReady{});
  leader.killed(0, 0);  // by somebody
  leader.killed(0, 1);
  leader.coordinator->node_lost(kNow, 1, "gone while both were to start");
  const auto again = leader.started();
  REQUIRE(again.size() == 1);
  CHECK(again[0].incarnation == 2);
  CHECK(again[0].world_size == 2);
}

TEST_CASE("coordinator: a node that is heard again is told again what it may have missed", "[launch]") {
  Leader leader;
  const auto started = leader.start();
  const auto told_again = [&] {
    leader.coordinator->take_orders();
    leader.coordinator->node_silent(kNow, 1, false);
    leader.coordinator->node_back(kNow, 1);
    return leader.coordinator->take_orders();
  };
  SECTION("to start") {
    const auto orders = told_again();
    REQUIRE(orders.size() == 1);
    CHECK(std::get<StartOrder>(orders[0].order) == started[1]);
  }
  SECTION("to stop") {
    leader.coordinator->receive(kNow, 0, StopAsked{"SIGTERM"});
    const auto orders = told_again();
    REQUIRE(orders.size() == 2);
    CHECK(std::holds_alternative<StopOrder>(orders[1].order));
  }
  SECTION("to kill") {
    leader.killed(0, 0);
    const auto orders = told_again();
    REQUIRE(orders.size() == 2);
    CHECK(std::holds_alternative<KillOrder>(orders[1].order));
  }
  SECTION("to be ready") {
    for (const int rank : {0, 1, 2}) leader.killed(0, rank);
    leader.coordinator->node_lost(kNow, 1, "its connection was closed");
    leader.coordinator->node_joined(kNow, 1, "beta");
    const auto orders = told_again();
    REQUIRE(orders.size() == 1);
    CHECK(std::holds_alternative<ClearOrder>(orders[0].order));
  }
}

TEST_CASE("coordinator: a leader whose own node is to blame leads on, and a spare is for the others",
          "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.supervisor.fewer_nodes = {1};
    options.supervisor.shrink_grace = Milliseconds{0};
    options.supervisor.on_failure.crash = FailureAction::kRestartExcludingNode;
    options.resolve_for = [](int) -> Result<std::string> { return std::string(); };
  });
  leader.coordinator->node_joined(kNow, 1, "beta");
  leader.coordinator->receive(kNow, 1, NodeReady{});  // alone at once
  leader.started();
  WorkerLeft left;
  left.end = {.rank = 0, .pid = 1, .signaled = true, .code = 11, .cause = "signal 11 (SIGSEGV)"};
  left.note.node = 1;
  leader.coordinator->receive(kNow, 1, left);
  leader.killed(0, 1);
  leader.coordinator->receive(kNow, 0, NodeReady{});
  const auto alone = leader.started();
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].node == 0);
  const auto first = leader.coordinator->take_changes();
  CHECK(first.size() == 2);  // node 1 was to blame

  left.incarnation = 1;
  left.note.node = 0;
  leader.coordinator->receive(kNow, 0, left);
  leader.killed(1, 1);
  const auto second = leader.coordinator->take_changes();
  REQUIRE(second.size() == 1);  // for later leaders; nobody else can take the leader's number
  CHECK(second[0].kind == MembershipChange::Kind::kExclude);
  leader.coordinator->spare_joined(kNow, "gamma");
  const auto changes = leader.coordinator->take_changes();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].kind == MembershipChange::Kind::kPromoteSpare);
  CHECK(changes[0].node == 1);
}

TEST_CASE("coordinator: who makes all others wait is named with its host, once", "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) {
    options.stragglers.emplace();
    options.resolved_yaml = resolved_yaml_of_two_nodes();
  });
  const int incarnation = leader.start().front().incarnation;
  for (int step = 1; step <= 200; step += 5)
    for (int node = 0; node < 2; ++node) {
      RanksSeen seen{incarnation, {}};
      for (const int rank : {2 * node, 2 * node + 1}) {
        RankNote note;
        note.rank = rank;
        note.node = node;
        note.step = step;
        note.costs = CostNote{step, 300.0 * step, (rank == 3 ? 250.0 : 100.0) * step, 0, 0};
        seen.notes.push_back(note);
      }
      leader.coordinator->receive(kNow, node, seen);
    }
  std::vector<StragglerFound> found;
  for (const Event& event : leader.sink.events)
    if (const auto* straggler = std::get_if<StragglerFound>(&event.body)) found.push_back(*straggler);
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == "3");
  CHECK(found[0].host == "beta");
  CHECK(found[0].cause == "compute");
  CHECK(found[0].ms == Approx(250));
  CHECK(found[0].peers_ms == Approx(100));
}

TEST_CASE("coordinator: a leader that only stops has finished at the step that is committed", "[launch]") {
  Leader leader({}, [](CoordinatorOptions& options) { options.supervisor.committed_step = 8; });
  leader.coordinator->receive(kNow, 0, StopAsked{"SIGTERM"});
  REQUIRE(leader.coordinator->done());
  CHECK(leader.coordinator->code() == ExitCode::kPreempted);
  REQUIRE(std::holds_alternative<RunFinished>(leader.sink.events.back().body));
  CHECK(std::get<RunFinished>(leader.sink.events.back().body).step == 8);
}
