#include "llmtrain/launch/node_hands.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/core/system_limits.hpp"
#include "llmtrain/diagnosis/process_state.hpp"
#include "llmtrain/diagnosis/stack_request.hpp"
#include "llmtrain/diagnosis/worker_reports.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/job/worker_signals.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/shm/region.hpp"

namespace llmtrain {
namespace {

constexpr Milliseconds kLookPeriod{1000};
constexpr Milliseconds kLogPatience{5000};
constexpr std::size_t kLastLines = 20;
constexpr std::size_t kMaxWaitingReports = 1000;  // then lines of output are not reported any more

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

bool lost_peer(const NodeReport& report) {
  const EndNote& end = std::get<WorkerLeft>(report).end;
  return classify({.rank = end.rank, .signaled = end.signaled, .code = end.code}) == ExitClass::kLostPeer;
}

// The stack of a worker that was killed was read on its own; what it said before is of interest here.
std::vector<std::string> last_words(const WorkerProcess& worker, bool killed_by_agent) {
  std::vector<std::string> lines = worker.stderr_log().tail(killed_by_agent ? 10 * kLastLines : kLastLines);
  if (killed_by_agent)
    std::erase_if(lines, [](const std::string& line) { return line.starts_with(kStackPrefix); });
  if (lines.size() > kLastLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLastLines));
  return lines;
}

}  // namespace

NodeHands::NodeHands(HandsOptions options, const RunDir& run, FileSystem& files)
    : options_(std::move(options)), run_(run), files_(files), console_(options_.tee) {}

void NodeHands::carry_out(Instant now, const NodeOrder& order) {
  std::visit([&](const auto& o) { carry_out(now, o); }, order);
}

void NodeHands::carry_out(Instant now, const StartOrder& order) {
  memory_.watch(getpid());
  memory_.take();                                 // those of the past are not this incarnation's
  if (order.incarnation == incarnation_) return;  // said twice
  left_.clear();
  killing_ = clearing_ = false;
  garbled_.clear();
  incarnation_ = order.incarnation;
  node_ = order.node;
  started_ = now;
  next_look_ = now + kLookPeriod;
  const Status status = start(order);
  if (status) return;
  StartFailed failed{
      order.incarnation, to_int(exit_code_for(status.error().code)), to_string(status.error()), {}};
  for (int rank = order.first_rank; rank < order.first_rank + order.num_workers; ++rank)
    if (!workers_.contains(rank)) failed.not_started.push_back(rank);
  reports_.push_back(std::move(failed));
}

// What an order can say wrong; the agent that sent it may be another build for all we know.
Status NodeHands::check(const StartOrder& order) const {
  const auto refuse = [](const std::string& what) {
    return Error{ErrorCode::kInternal, "an order to start that cannot be carried out: " + what, {}};
  };
  if (!workers_.empty()) return refuse("workers of an earlier incarnation are alive on this node");
  if (order.num_workers < 1 || order.num_workers > kMaxLocalRanks)
    return refuse(fmt::format("{} workers; allowed: 1 to {}", order.num_workers, kMaxLocalRanks));
  if (order.incarnation < 0 || order.node < 0 || order.first_rank < 0 ||
      order.first_rank > order.world_size - order.num_workers)
    return refuse(
        fmt::format("ranks {} and {} more of {}", order.first_rank, order.num_workers - 1, order.world_size));
  if (!order.checkpoint.empty() && !is_bare_name(order.checkpoint))
    return refuse("its checkpoint is not the name of one");
  return ok_status();
}

Status NodeHands::start(const StartOrder& order) {
  LLMTRAIN_TRY(check(order));
  const std::string logs = log_directory(order).string();
  LLMTRAIN_TRY(check_logs(logs));
  console_.start(logs);
  LLMTRAIN_ASSIGN(shm, create_shm_region(order.num_workers));
  for (int local = 0; local < order.num_workers; ++local) LLMTRAIN_TRY(start_worker(order, local, shm.get()));
  return ok_status();
}

// What cannot be used at all is an error of who asked for it, before anything has run. Later no job stops for
// its logs, and nothing waits for their disk.
Status NodeHands::check_logs(const std::string& directory) {
  if (logs_are_usable_) return ok_status();
  LLMTRAIN_TRY(make_directories(files_, directory));
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return Error{ErrorCode::kStorage,
                 fmt::format("no logs can be made in {}: {}", directory, std::strerror(errno)),
                 "make it writable, or choose another run.dir or --log-dir"};
  logs_are_usable_ = true;
  return ok_status();
}

std::filesystem::path NodeHands::log_directory(const StartOrder& order) const {
  if (!options_.log_dir) return run_.logs(order.incarnation, order.node);
  return std::filesystem::path(*options_.log_dir) / std::to_string(order.incarnation) /
         fmt::format("node{}", order.node);
}

Status NodeHands::start_worker(const StartOrder& order, int local_rank, int shm_fd) {
  WorkerLaunch launch = options_.worker;
  WorkerRequest& request = launch.request;
  request.rank = order.first_rank + local_rank;
  request.local_rank = local_rank;
  request.world_size = order.world_size;
  request.node = order.node;
  request.incarnation = order.incarnation;
  request.spec_yaml = order.spec_yaml;
  request.epoch = order.epoch;
  if (!order.checkpoint.empty()) request.resume_path = (run_.checkpoints() / order.checkpoint).string();
  const auto log_file = [&, logs = log_directory(order)](const char* what) {
    return (logs / fmt::format("rank{}.{}", request.rank, what)).string();
  };
  request.error_file = log_file("error.json");
  launch.shm_fd = shm_fd;
  launch.stdout_path = log_file("out");
  launch.stderr_path = log_file("err");
  launch.logs = &logs_;
  launch.line = [this, rank = request.rank, local_rank](WorkerStream stream, std::string_view text) {
    console_.line(rank, local_rank, stream, text);
  };
  UniqueFd workers_end;
  if (order.nodes > 1) {
    LLMTRAIN_ASSIGN(ends, WorkerStore::open());
    workers_end = std::move(ends.second);
    launch.store_fd = workers_end.get();
    stores_.insert_or_assign(request.rank, std::move(ends.first));
  }
  LLMTRAIN_ASSIGN(worker, WorkerProcess::start(launch));
  memory_.watch(worker.pid());
  workers_.emplace(request.rank, std::move(worker));
  return ok_status();
}

void NodeHands::carry_out(Instant, const StopOrder&) {
  for (auto& [rank, worker] : workers_) worker.black_box().stop_request.store(1);
}

void NodeHands::carry_out(Instant, const KillOrder& order) {
  look(order.stacks);
  killing_ = true;
  for (auto& [rank, worker] : workers_)
    if (const Status killed = worker.process().kill_group(); !killed)
      reports_.push_back(NodeSaid{Severity::kError, rank, to_string(killed.error())});
}

void NodeHands::carry_out(Instant, const StoreAnswer& order) {
  const auto store = stores_.find(order.rank);
  if (order.incarnation == incarnation_ && store != stores_.end()) store->second.answer(order.reply);
}

void NodeHands::carry_out(Instant now, const ClearOrder&) {
  clearing_ = true;
  carry_out(now, KillOrder{});
}

void NodeHands::add_poll_fds(std::vector<pollfd>& fds) const {
  for (const auto& [rank, worker] : workers_) {
    fds.push_back({worker.process().pidfd(), POLLIN, 0});
    fds.push_back({worker.control_fd(), POLLIN, 0});  // a closed one is -1, which poll passes over
    fds.push_back({worker.stdout_fd(), POLLIN, 0});
    fds.push_back({worker.stderr_fd(), POLLIN, 0});
  }
  for (const auto& [rank, store] : stores_) fds.push_back({store.fd(), POLLIN, 0});
}

std::optional<Instant> NodeHands::deadline() const {
  return workers_.empty() ? std::nullopt : next_look_;
}

void NodeHands::poll(Instant now) {
  for (auto& [rank, worker] : workers_) {
    worker.pump_output(now);
    read_events(worker);
  }
  read_stores();
  pass_lines(now);
  reap();
  if (next_look_ && now >= *next_look_) {
    next_look_ = now + kLookPeriod;
    if (!workers_.empty() && !killing_) look(false);
    watch(now);
  }
  if (clearing_ && workers_.empty()) {
    clearing_ = false;
    reports_.push_back(NodeReady{});
  }
}

std::int64_t NodeHands::newest_step() const {
  std::int64_t step = -1;
  for (const auto& [rank, worker] : workers_) step = std::max(step, worker.black_box().step.load());
  return step;
}

void NodeHands::pass_lines(Instant now) {
  if (auto text = logs_.notice(now)) reports_.push_back(NodeSaid{Severity::kWarning, -1, std::move(*text)});
  for (NodeSaid& said : console_.take(now, workers_.empty()))
    if (reports_.size() < kMaxWaitingReports) reports_.push_back(std::move(said));
}

std::vector<NodeReport> NodeHands::take_reports() {
  return std::exchange(reports_, {});
}

void NodeHands::report_again() {
  reports_.insert(reports_.end(), left_.begin(), left_.end());
  if (workers_.empty() && !clearing_) reports_.push_back(NodeReady{});
}

void NodeHands::put_back(std::vector<NodeReport> reports) {
  reports.insert(
      reports.end(), std::make_move_iterator(reports_.begin()), std::make_move_iterator(reports_.end()));
  reports_ = std::move(reports);
}

// At most a second: those that SIGKILL does not end are left to the kernel.
void NodeHands::end_all() {
  carry_out(Instant{0}, KillOrder{});
  for (int round = 0; round < 1000 && !workers_.empty(); ++round) {
    std::vector<pollfd> fds;
    for (const auto& [rank, worker] : workers_) fds.push_back({worker.process().pidfd(), POLLIN, 0});
    ::poll(fds.data(), fds.size(), 1);
    reap();
  }
  abandon();
}

void NodeHands::abandon() {
  for (auto& [rank, worker] : workers_) worker.process().abandon();
  workers_.clear();
  stores_.clear();
  kill_adopted_orphans(options_.aids);
}

std::optional<std::string> NodeHands::finish_logs() {
  return logs_.flush(kLogPatience);
}

void NodeHands::read_events(WorkerProcess& worker) {
  for (const std::string& line : worker.read_lines()) {
    auto event = event_from_json(line);
    if (event)
      reports_.push_back(WorkerSaid{incarnation_, worker.rank(), std::move(event).value()});
    else if (garbled_.insert(worker.rank()).second)
      reports_.push_back(NodeSaid{
          Severity::kWarning, worker.rank(), "a message that is not understood: " + event.error().message});
  }
}

void NodeHands::read_stores() {
  for (auto& [rank, store] : stores_)
    for (std::string& packet : store.read())
      reports_.push_back(StoreAsked{incarnation_, rank, std::move(packet)});
}

void NodeHands::reap() {
  std::vector<NodeReport> left;
  for (auto it = workers_.begin(); it != workers_.end();) {
    WorkerProcess& worker = it->second;
    const auto end = worker.process().reap();
    if (!end) {
      ++it;
      continue;
    }
    read_events(worker);  // what it said before it died
    worker.finish_output(steady_now());
    const EndNote note{.rank = worker.rank(),
                       .pid = worker.pid(),
                       .signaled = end->signaled,
                       .code = end->code,
                       .cause = describe_end(end->signaled, end->code),
                       .by_agent = killing_ && end->signaled};
    WorkerLeft report{incarnation_, note, look_at_worker(worker), {}, 0};
    if (note.signaled && !note.by_agent) report.memory_kills = memory_.take();
    if (note.signaled || note.code != 0) report.last_words = last_words(worker, note.by_agent);
    if (std::string limit = limit_in_words(fmt::format("{}", fmt::join(report.last_words, "\n")));
        !limit.empty())
      report.last_words.push_back(std::string(kLimitPrefix) + limit);
    left.push_back(std::move(report));
    stores_.erase(worker.rank());
    it = workers_.erase(it);
  }
  if (left.empty()) return;
  if (workers_.empty()) kill_adopted_orphans(options_.aids);
  pass_lines(steady_now());
  // Seen together, a lost peer is the consequence.
  std::stable_partition(left.begin(), left.end(), [](const NodeReport& r) { return !lost_peer(r); });
  left_.insert(left_.end(), left.begin(), left.end());
  reports_.insert(reports_.end(), left.begin(), left.end());
}

RankNote NodeHands::look_at_worker(const WorkerProcess& worker) const {
  RankNote note = look_at(worker.rank(), worker.black_box(), now_ns());
  note.node = node_;
  note.pid = worker.pid();
  return note;
}

void NodeHands::look(bool stacks) {
  RanksSeen seen{incarnation_, {}};
  for (const auto& [rank, worker] : workers_) {
    memory_.watch(worker.pid());
    RankNote note = look_at_worker(worker);
    ProcessState state = process_state(worker.pid());
    note.process_state = std::move(state.state);
    note.wait_channel = std::move(state.wait_channel);
    seen.notes.push_back(std::move(note));
  }
  if (stacks) read_stacks(seen.notes);
  // Nobody may be there to take them: where ranks are now replaces where they were.
  std::erase_if(reports_, [](const NodeReport& report) { return std::holds_alternative<RanksSeen>(report); });
  if (!seen.notes.empty()) reports_.push_back(std::move(seen));
}

// Takes a third of a second at most: workers that do not answer are killed without.
void NodeHands::read_stacks(std::vector<RankNote>& notes) {
  StackRequest request(kStackSignal);
  std::map<int, std::uint64_t> seen;
  for (const RankNote& note : notes) {
    const WorkerProcess& worker = workers_.at(note.rank);
    const bool stopped = note.process_state == "T" || note.process_state == "t";
    seen[note.rank] = worker.stderr_log().seen();
    request.ask(note.rank, worker.pid(), stopped);
  }
  // Its answer comes through the pipe that nobody else reads meanwhile.
  const auto stacks = request.collect([&](int rank) {
    WorkerProcess& worker = workers_.at(rank);
    worker.pump_output(steady_now());
    return worker.stderr_log().since(seen.at(rank));
  });
  for (RankNote& note : notes)
    if (const auto found = stacks.find(note.rank); found != stacks.end()) note.stack = found->second;
}

void NodeHands::watch(Instant now) {
  if (options_.stall_limit.count() == 0 || killing_) return;
  const Instant limit = now - options_.stall_limit;
  for (const auto& [rank, worker] : workers_) {
    const Instant heartbeat =
        std::chrono::duration_cast<Instant>(std::chrono::nanoseconds(worker.black_box().heartbeat_ns.load()));
    if (std::max(heartbeat, started_) >= limit) continue;
    reports_.push_back(WorkerStalled{
        incarnation_, rank, fmt::format("no sign of life for {} s", options_.stall_limit.count() / 1000)});
    return;
  }
}

}  // namespace llmtrain
