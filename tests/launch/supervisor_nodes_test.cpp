#include "llmtrain/launch/supervisor.hpp"

#include "tests/launch/supervisor_commands.hpp"
#include "tests/support/catch.hpp"

// A job on several nodes: nobody starts before all are there, and a node takes its ranks along.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr Instant kNow{1000};
const std::vector<int> kFirst = {0, 1};
const std::vector<int> kSecond = {2, 3};

SupervisorOptions two_nodes() {
  SupervisorOptions options;
  options.num_workers = 4;
  options.num_nodes = 2;
  options.join_timeout = Milliseconds{60'000};
  return options;
}

Supervisor running() {
  Supervisor supervisor(two_nodes());
  CHECK(supervisor.start(kNow).empty());
  CHECK(supervisor.node_ready(kNow, 0).empty());
  REQUIRE(find<StartWorkers>(supervisor.node_ready(kNow, 1)) != nullptr);
  return supervisor;
}

}  // namespace

TEST_CASE("supervisor: nothing starts before every node is ready", "[launch]") {
  Supervisor supervisor(two_nodes());
  CHECK(supervisor.start(kNow).empty());
  CHECK(supervisor.gathering());
  CHECK(supervisor.node_ready(kNow, 1).empty());
  CHECK(supervisor.node_lost(kNow, 1, kSecond).empty());  // charged to nobody: nothing ran
  CHECK(supervisor.node_ready(kNow, 0).empty());
  const auto start = supervisor.node_ready(kNow, 1);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->incarnation == 0);
  CHECK_FALSE(supervisor.gathering());
}

TEST_CASE("supervisor: a node that does not come ends the wait, and is named", "[launch]") {
  Supervisor supervisor(two_nodes());
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  CHECK(supervisor.tick(kNow).empty());
  const auto end = supervisor.tick(kNow + Milliseconds{60'000});
  CHECK(finished(end) == ExitCode::kHang);
  CHECK(find<Finish>(end)->reason.find("node 1 did not come") != std::string::npos);
}

TEST_CASE("supervisor: a lost node is the cause, its ranks are gone at once, and one restart is charged",
          "[launch]") {
  auto supervisor = running();
  supervisor.step_finished(3);
  CHECK(find<KillWorkers>(supervisor.node_lost(kNow, 1, kSecond)) != nullptr);
  CHECK_FALSE(supervisor.alive(2));
  supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  const auto after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
  const auto* failed = find<IncarnationFailed>(after);
  REQUIRE(failed != nullptr);
  CHECK(failed->first_node == 1);
  CHECK(failed->first_rank == 2);
  CHECK(failed->num_restarts == 1);
  CHECK(find<StartWorkers>(after) == nullptr);  // it waits for the node, or for a spare

  CHECK(supervisor.gathering());
  const auto start = supervisor.node_ready(kNow, 1);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->incarnation == 1);
}

TEST_CASE("supervisor: a peer that was lost first is explained by the node", "[launch]") {
  auto supervisor = running();
  CHECK(supervisor.worker_ended(kNow, {.rank = 0, .code = 80}).empty());
  CHECK(find<KillWorkers>(supervisor.node_lost(kNow, 1, kSecond)) != nullptr);
  const auto after = supervisor.worker_ended(kNow, {.rank = 1, .code = 80});
  CHECK(find<IncarnationFailed>(after)->first_node == 1);
}

TEST_CASE("supervisor: with its last node an incarnation is over at once", "[launch]") {
  auto supervisor = running();
  supervisor.node_lost(kNow, 1, kSecond);
  const auto after = supervisor.node_lost(kNow, 0, kFirst);
  CHECK(find<IncarnationFailed>(after) != nullptr);
  CHECK(supervisor.gathering());
}

TEST_CASE("supervisor: a node that goes when its workers have finished is no failure", "[launch]") {
  auto supervisor = running();
  for (const int rank : kSecond) supervisor.worker_ended(kNow, {.rank = rank});
  CHECK(supervisor.node_lost(kNow, 1, kSecond).empty());
  supervisor.worker_ended(kNow, {.rank = 0});
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1})) == ExitCode::kDone);
}

TEST_CASE("supervisor: a stop ends the wait for nodes", "[launch]") {
  auto options = two_nodes();
  options.committed_step = 5;
  Supervisor supervisor(options);
  supervisor.start(kNow);
  CHECK(finished(supervisor.stop_requested(kNow)) == ExitCode::kPreempted);
  CHECK(supervisor.node_ready(kNow, 0).empty());
  CHECK(supervisor.node_lost(kNow, 0, kFirst).empty());
}

// ---- nodes that are left out, and elastic jobs
// --------------------------------------------------------------

namespace {

SupervisorOptions elastic() {
  SupervisorOptions options = two_nodes();
  options.fewer_nodes = {1};
  return options;
}

// Node 1 goes for good, and node 0 goes on alone.
Supervisor shrunk() {
  Supervisor supervisor(elastic());
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  supervisor.step_finished(3);
  supervisor.node_lost(kNow, 1, kSecond);
  supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  CHECK(find<StartWorkers>(supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9})) ==
        nullptr);
  const Instant grace = kNow + SupervisorOptions{}.shrink_grace;
  REQUIRE(supervisor.deadline() == grace);
  const auto start = supervisor.tick(grace);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->incarnation == 1);
  CHECK(find<StartWorkers>(start)->nodes == std::vector<int>{0});
  CHECK(supervisor.alive(1));
  CHECK_FALSE(supervisor.alive(2));
  return supervisor;
}

SupervisorOptions leaving_out() {
  SupervisorOptions options = two_nodes();
  options.on_failure.crash = FailureAction::kRestartExcludingNode;
  return options;
}

// Rank 2 crashes, and all others are killed.
Commands crash_on_second(Supervisor& supervisor) {
  supervisor.step_finished(3);
  Commands last = supervisor.worker_ended(kNow, {.rank = 2, .signaled = true, .code = 11});
  for (const int rank : {0, 1, 3})
    if (supervisor.alive(rank))
      last = supervisor.worker_ended(kNow, {.rank = rank, .signaled = true, .code = 9});
  return last;
}

}  // namespace

TEST_CASE("supervisor: an elastic job waits for its node, and goes on without it", "[launch]") {
  auto supervisor = shrunk();
  SECTION("a failure while it is small does not wait a second time") {
    supervisor.step_finished(4);
    const Instant later = kNow + Milliseconds{100'000};
    supervisor.worker_ended(later, {.rank = 0, .signaled = true, .code = 11});
    const auto start = supervisor.worker_ended(later, {.rank = 1, .signaled = true, .code = 9});
    REQUIRE(find<StartWorkers>(start) != nullptr);
    CHECK(find<StartWorkers>(start)->nodes == std::vector<int>{0});
  }
  SECTION("it ends as any other") {
    supervisor.worker_ended(kNow, {.rank = 0});
    CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1})) == ExitCode::kDone);
  }
}

TEST_CASE("supervisor: a node that is back in time is waited for", "[launch]") {
  Supervisor supervisor(elastic());
  supervisor.start(kNow);
  CHECK(supervisor.node_ready(kNow, 0).empty());
  const auto start = supervisor.node_ready(kNow + Milliseconds{20'000}, 1);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->nodes == std::vector<int>{0, 1});
}

TEST_CASE("supervisor: an elastic job without its least number waits, and ends with 68", "[launch]") {
  Supervisor supervisor(elastic());
  supervisor.start(kNow);
  CHECK(supervisor.tick(kNow + Milliseconds{30'000}).empty());
  REQUIRE(supervisor.deadline() == kNow + Milliseconds{60'000});
  SECTION("one comes late, and that is enough") {
    CHECK(find<StartWorkers>(supervisor.node_ready(kNow + Milliseconds{40'000}, 1))->nodes ==
          std::vector<int>{1});
  }
  SECTION("none comes") {
    CHECK(finished(supervisor.tick(*supervisor.deadline())) == ExitCode::kHang);
  }
}

TEST_CASE("supervisor: a small job grows at a checkpoint, by plan and at no cost", "[launch]") {
  auto supervisor = shrunk();
  const int charged = supervisor.num_restarts();
  CHECK(supervisor.grow(kNow).empty());  // nobody is there
  CHECK(supervisor.node_ready(kNow, 1).empty());
  supervisor.step_finished(5);
  supervisor.checkpoint_committed(5);
  CHECK(find<RequestStop>(supervisor.grow(kNow)) != nullptr);
  CHECK(supervisor.growing());
  CHECK(supervisor.grow(kNow).empty());  // once
  const int how = GENERATE(0, 1, 2, 3, 4);
  Commands after;
  if (how == 0) {  // as it should be
    supervisor.worker_ended(kNow, {.rank = 0, .code = 81});
    after = supervisor.worker_ended(kNow, {.rank = 1, .code = 81});
  } else if (how == 1) {  // one does not leave
    supervisor.worker_ended(kNow, {.rank = 0, .code = 81});
    CHECK(find<KillWorkers>(supervisor.tick(*supervisor.deadline())) != nullptr);
    after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
  }
  if (how <= 1) {
    CHECK(find<IncarnationFailed>(after) == nullptr);
    REQUIRE(find<PlannedRestart>(after) != nullptr);
    CHECK(find<PlannedRestart>(after)->reason == "from 1 node to 2");
    REQUIRE(find<StartWorkers>(after) != nullptr);
    CHECK(find<StartWorkers>(after)->incarnation == 2);
    CHECK(find<StartWorkers>(after)->nodes == std::vector<int>{0, 1});
    CHECK(supervisor.num_restarts() == charged);
    CHECK_FALSE(supervisor.growing());
  } else if (how == 2) {  // a crash on the way is a crash
    supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 11});
    CHECK_FALSE(supervisor.growing());
    after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
    CHECK(find<IncarnationFailed>(after) != nullptr);
    CHECK(find<StartWorkers>(after)->nodes == std::vector<int>{0, 1});
    CHECK(supervisor.num_restarts() == charged + 1);
  } else if (how == 3) {  // a stop that is asked for meanwhile wins
    supervisor.stop_requested(kNow);
    supervisor.worker_ended(kNow, {.rank = 0, .code = 81});
    CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1, .code = 81})) == ExitCode::kPreempted);
  } else {  // and so does the end of the run
    supervisor.worker_ended(kNow, {.rank = 0});
    CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1})) == ExitCode::kDone);
  }
}

TEST_CASE("supervisor: without checkpoints a small job grows after a while: the stop saves", "[launch]") {
  auto supervisor = shrunk();
  CHECK(supervisor.node_ready(kNow, 1).empty());
  const Instant patience = kNow + SupervisorOptions{}.grow_patience;
  CHECK(supervisor.tick(patience - Milliseconds{1}).empty());
  CHECK(find<RequestStop>(supervisor.tick(patience)) != nullptr);
  CHECK(supervisor.growing());
  supervisor.worker_ended(patience, {.rank = 0, .code = 81});
  const auto after = supervisor.worker_ended(patience, {.rank = 1, .code = 81});
  REQUIRE(find<StartWorkers>(after) != nullptr);
  CHECK(find<StartWorkers>(after)->nodes == std::vector<int>{0, 1});
  CHECK(supervisor.tick(patience + patience).empty());  // once
}

TEST_CASE("supervisor: a node that is asked to leave an elastic job leaves at a step that is saved",
          "[launch]") {
  Supervisor supervisor(elastic());
  CHECK_FALSE(supervisor.can_spare(1));
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  supervisor.step_finished(3);
  CHECK(supervisor.can_spare(1));
  CHECK(find<RequestStop>(supervisor.node_leaves(kNow, 1)) != nullptr);
  CHECK_FALSE(supervisor.can_spare(0));  // the last one
  for (const int rank : {0, 1, 2}) supervisor.worker_ended(kNow, {.rank = rank, .code = 81});
  SECTION("and the others go on at once, at no cost") {
    const auto after = supervisor.worker_ended(kNow, {.rank = 3, .code = 81});
    CHECK(find<IncarnationFailed>(after) == nullptr);
    CHECK(find<PlannedRestart>(after)->reason == "from 2 nodes to 1");
    REQUIRE(find<StartWorkers>(after) != nullptr);
    CHECK(find<StartWorkers>(after)->nodes == std::vector<int>{0});
    CHECK(supervisor.num_restarts() == 0);
    supervisor.node_ready(kNow, 1);  // it is still on its way out
    CHECK(supervisor.grow(kNow).empty());
    supervisor.node_lost(kNow, 1, {});
    supervisor.node_ready(kNow, 1);  // and here it is again
    CHECK(find<RequestStop>(supervisor.grow(kNow)) != nullptr);
  }
  SECTION("a stop of all that is asked for meanwhile wins") {
    supervisor.stop_requested(kNow);
    CHECK(finished(supervisor.worker_ended(kNow, {.rank = 3, .code = 81})) == ExitCode::kPreempted);
  }
  SECTION("a crash on the way is a crash, and it leaves all the same") {
    const auto after = supervisor.worker_ended(kNow, {.rank = 3, .signaled = true, .code = 11});
    CHECK(find<IncarnationFailed>(after) != nullptr);
    REQUIRE(find<StartWorkers>(after) != nullptr);
    CHECK(find<StartWorkers>(after)->nodes == std::vector<int>{0});
  }
}

TEST_CASE("supervisor: no job but an elastic one can spare a node", "[launch]") {
  Supervisor supervisor(two_nodes());
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  CHECK_FALSE(supervisor.can_spare(1));
}

TEST_CASE("supervisor: a node that is to blame is left out, and a spare takes its number", "[launch]") {
  Supervisor supervisor(leaving_out());
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  const auto after = crash_on_second(supervisor);
  REQUIRE(find<IncarnationFailed>(after) != nullptr);
  CHECK(find<IncarnationFailed>(after)->excluded == std::set{1});
  CHECK(find<IncarnationFailed>(after)->restarts);
  CHECK(find<StartWorkers>(after) == nullptr);
  SECTION("that comes") {
    CHECK(find<StartWorkers>(supervisor.node_ready(kNow, 1))->nodes == std::vector<int>{0, 1});
  }
  SECTION("and without one the job ends with 64") {
    REQUIRE(supervisor.deadline() == kNow + SupervisorOptions{}.spare_grace);
    const auto end = supervisor.tick(*supervisor.deadline());
    CHECK(finished(end) == ExitCode::kPreflight);
    CHECK(find<Finish>(end)->reason.find("node 1 was left out") != std::string::npos);
  }
}

TEST_CASE("supervisor: nodes with workers that cannot be killed are left out, whatever failed", "[launch]") {
  Supervisor supervisor({.num_workers = 4, .num_nodes = 2});
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  CHECK(find<KillWorkers>(supervisor.worker_ended(kNow, {.rank = 0, .code = 70})) != nullptr);
  supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
  supervisor.worker_ended(kNow, {.rank = 3, .signaled = true, .code = 9});
  const auto after = supervisor.tick(*supervisor.deadline());
  REQUIRE(find<IncarnationFailed>(after) != nullptr);
  CHECK(find<IncarnationFailed>(after)->first_rank == 0);
  CHECK(find<IncarnationFailed>(after)->unkillable == std::vector<int>{2});
  CHECK(find<IncarnationFailed>(after)->excluded == std::set{1});
  SECTION("a spare takes the place") {
    const auto start = supervisor.node_ready(kNow, 1);
    REQUIRE(find<StartWorkers>(start) != nullptr);
    CHECK(find<StartWorkers>(start)->incarnation == 1);
    CHECK(supervisor.alive(2));
  }
  SECTION("without one the job ends with 64") {
    CHECK(finished(supervisor.tick(*supervisor.deadline())) == ExitCode::kPreflight);
  }
}

TEST_CASE("supervisor: without a spare an elastic job goes on without the node that is to blame",
          "[launch]") {
  auto options = leaving_out();
  options.fewer_nodes = {1};
  Supervisor supervisor(options);
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  crash_on_second(supervisor);
  CHECK(find<StartWorkers>(supervisor.tick(*supervisor.deadline()))->nodes == std::vector<int>{0});
}

TEST_CASE("supervisor: who is not known to be to blame is not left out", "[launch]") {
  auto options = leaving_out();
  options.judge = [](const FailureSigns&) { return JudgedFailure{FailureKind::kExit, {}}; };
  Supervisor supervisor(options);
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  supervisor.node_ready(kNow, 1);
  const auto after = crash_on_second(supervisor);
  CHECK(find<IncarnationFailed>(after)->excluded.empty());
  CHECK(find<StartWorkers>(after) != nullptr);
}
