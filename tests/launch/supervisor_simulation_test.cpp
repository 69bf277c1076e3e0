#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/launch/supervisor.hpp"

#include "tests/support/catch.hpp"

// Thousands of seeded failure scripts on simulated time. A script decides what every worker does; the
// simulator plays agent and machine, and checks at each command what must never happen.

using namespace llmtrain;

namespace {

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) : random_(seed) {
    options_.num_nodes = pick(0, 1) == 0 ? 1 : pick(2, 4);
    per_node_ = options_.num_nodes == 1 ? pick(1, 5) : pick(1, 3);
    options_.num_workers = options_.num_nodes * per_node_;
    options_.join_timeout = Milliseconds{pick(1, 30'000)};
    node_weight_ = options_.num_nodes == 1 ? 0 : pick(0, 20);
    if (pick(0, 1) == 0)
      for (int size = 1; size < options_.num_nodes; ++size)
        if (pick(0, 3) != 0) options_.fewer_nodes.push_back(size);
    options_.shrink_grace = Milliseconds{pick(0, 10'000)};
    options_.spare_grace = Milliseconds{pick(0, 10'000)};
    const auto action = [this] { return static_cast<FailureAction>(std::max(0, pick(-4, 2))); };
    options_.on_failure = {action(), action(), action(), action(), action(), action(), action(), action()};
    options_.max_restarts = pick(0, 8);
    if (pick(0, 3) == 0) options_.restart_window = Milliseconds{pick(1, 60'000)};
    options_.no_progress_limit = pick(0, 4);
    options_.stop_grace = Milliseconds{pick(1, 5000)};
    options_.kill_limit = Milliseconds{pick(1000, 5000)};
    failure_weight_ = pick(0, 100);
    unkillable_ = pick(0, 40) == 0;
    stop_at_ = pick(0, 2) == 0 ? pick(0, 20'000) : -1;
    second_stop_at_ = stop_at_ >= 0 && pick(0, 2) == 0 ? stop_at_ + pick(0, 3000) : -1;
  }

  // Empty: every rule held.
  std::string run() {
    Supervisor supervisor(options_);
    carry_out(supervisor.start(now_));
    for (int node = 0; node < options_.num_nodes && options_.num_nodes > 1; ++node) leave(node);
    for (int turn = 0; turn < 10'000 && problem_.empty() && !supervisor.done(); ++turn) {
      const auto event = next_event(supervisor);
      if (!event) return "deadlock: no event and no deadline";
      now_ = std::max(now_, *event);
      step(supervisor);
    }
    if (problem_.empty() && !supervisor.done()) problem_ = "it does not end";
    if (problem_.empty() && finishes_ != 1) problem_ = "not exactly one Finish";
    return problem_;
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  WorkerEnd random_end(int rank) {
    static constexpr int kCodes[] = {
        1, 2, 64, 65, 68, 69, 70, 70, 70, 71, 72, 73, 77, 80, 80, 80, 81, 82, 127};
    if (pick(0, 2) == 0) return {.rank = rank, .signaled = true, .code = pick(0, 1) != 0 ? 9 : 11};
    return {.rank = rank, .signaled = false, .code = kCodes[pick(0, std::size(kCodes) - 1)]};
  }

  struct Worker {
    std::optional<Instant> ends_at;  // absent: it hangs
    WorkerEnd end;
  };

  std::optional<Instant> next_event(const Supervisor& supervisor) const {
    std::optional<Instant> next = supervisor.deadline();
    const auto consider = [&next](Instant at) { next = next ? std::min(*next, at) : at; };
    for (const auto& [rank, worker] : workers_)
      if (worker.ends_at) consider(*worker.ends_at);
    if (stop_at_ >= 0) consider(Instant{stop_at_});
    if (second_stop_at_ >= 0 && stop_at_ < 0) consider(Instant{second_stop_at_});
    for (const auto& [node, at] : coming_) consider(at);
    if (!next && !workers_.empty()) next = now_ + Milliseconds{60'000};  // the watch on heartbeats
    return next;
  }

  void step(Supervisor& supervisor) {
    if (pick(0, 3) == 0) supervisor.step_finished(++step_);
    if (pick(0, 5) == 0) {
      supervisor.checkpoint_committed(step_);
      const Commands grow = supervisor.grow(now_);
      growing_ = growing_ || !grow.empty();
      carry_out(grow);
    }
    if (change_nodes(supervisor)) return;
    for (int& stop : {std::ref(stop_at_), std::ref(second_stop_at_)})
      if (stop >= 0 && now_ >= Instant{stop}) {
        stop = -1;
        stopped_ = true;
        carry_out(supervisor.stop_requested(now_));
        return;
      }
    for (const auto& [rank, worker] : workers_)
      if (worker.ends_at && *worker.ends_at <= now_) {
        const WorkerEnd end = worker.end;
        all_zero_ = all_zero_ && !end.signaled && end.code == 0;
        const bool in_peace =
            classify(end) == ExitClass::kStoppedSaved || classify(end) == ExitClass::kStoppedUnsaved;
        stopped_ = stopped_ || (in_peace && !growing_);
        workers_.erase(end.rank);
        carry_out(supervisor.worker_ended(now_, end));
        return;
      }
    if (supervisor.deadline() && *supervisor.deadline() <= now_) return carry_out(supervisor.tick(now_));
    if (!workers_.empty()) carry_out(supervisor.worker_stalled(now_, workers_.begin()->first));
  }

  // A node that is away comes back after a while, or never.
  void leave(int node) {
    ready_.erase(node);
    coming_.erase(node);
    if (pick(0, 9) != 0) coming_[node] = now_ + Milliseconds{pick(0, 20'000)};
  }
  bool change_nodes(Supervisor& supervisor) {
    for (const auto& [node, at] : coming_)
      if (at <= now_) {
        const int came = node;
        coming_.erase(came);
        ready_.insert(came);
        carry_out(supervisor.node_ready(now_, came));
        return true;
      }
    if (ready_.empty() || pick(0, 99) >= node_weight_) return false;
    const int node = *std::next(ready_.begin(), pick(0, static_cast<int>(ready_.size()) - 1));
    std::vector<int> ranks;
    const auto slot = static_cast<int>(std::find(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
    for (int i = 0; i < per_node_ && slot < static_cast<int>(nodes_.size()); ++i)
      ranks.push_back(slot * per_node_ + i);
    for (const int rank : ranks) all_zero_ = workers_.erase(rank) == 0 && all_zero_;
    leave(node);
    carry_out(supervisor.node_lost(now_, node, ranks));
    return true;
  }

  void carry_out(const Commands& commands) {
    for (const Command& command : commands) {
      if (finishes_ > 0) problem_ = "a command after Finish";
      std::visit([this](const auto& c) { carry_out(c); }, command);
    }
  }

  void carry_out(const StartWorkers& start) {
    if (!workers_.empty()) problem_ = "two incarnations at once";
    if (start.incarnation != starts_) problem_ = "incarnations are not counted one by one";
    if (++starts_ > options_.max_restarts + 1 + planned_ && options_.restart_window.count() == 0)
      problem_ = "the restart budget is exceeded";
    if (stopped_) problem_ = "a restart after a stop";
    nodes_ = start.nodes;
    growing_ = false;
    const int size = static_cast<int>(nodes_.size());
    const auto& fewer = options_.fewer_nodes;
    if (size != options_.num_nodes && std::find(fewer.begin(), fewer.end(), size) == fewer.end())
      problem_ = "a start without all nodes";
    for (const int node : nodes_)
      if (options_.num_nodes > 1 && !ready_.contains(node)) problem_ = "a start with a node that is away";
    all_zero_ = true;
    for (int rank = 0; rank < per_node_ * size; ++rank) {
      Worker& worker = workers_[rank];
      worker.ends_at = now_ + Milliseconds{pick(0, 4000)};
      worker.end = {.rank = rank};
      if (pick(0, 99) < failure_weight_) worker.end = random_end(rank);
      if (pick(0, 99) < failure_weight_ / 4) worker.ends_at.reset();
    }
  }

  void carry_out(const PlannedRestart& planned) {
    ++planned_;
    if (!workers_.empty()) problem_ = "a planned restart while workers are alive";
    if (planned.reason.empty()) problem_ = "a planned restart without a reason";
  }

  void carry_out(const RequestStop&) {
    for (auto& [rank, worker] : workers_) {
      if (pick(0, 3) == 0) continue;  // ignores it
      worker.ends_at = now_ + Milliseconds{pick(0, 4000)};
      worker.end = {.rank = rank, .signaled = false, .code = to_int(WorkerExit::kStoppedSaved)};
    }
  }

  void carry_out(const KillWorkers&) {
    for (auto& [rank, worker] : workers_) {
      if (unkillable_ && rank == 0) {
        worker.ends_at.reset();
        continue;
      }
      // Some were on their way out already, with a code of their own.
      if (!(worker.ends_at && *worker.ends_at <= now_ + Milliseconds{5})) {
        worker.ends_at = now_ + Milliseconds{pick(0, 50)};
        worker.end = {.rank = rank, .signaled = true, .code = 9};
      }
    }
  }

  void carry_out(const IncarnationFailed& failed) {
    for (const int rank : failed.unkillable) all_zero_ = workers_.erase(rank) == 0 && all_zero_;
    if (!unkillable_ && !failed.unkillable.empty()) problem_ = "workers are left behind that would have died";
    if (!workers_.empty()) problem_ = "a failure is closed while workers are alive";
    for (const int node : failed.excluded) leave(node);
    if (failed.restarts && failed.delay > options_.backoff_max) problem_ = "the back-off is too long";
  }

  void carry_out(const Finish& finish) {
    ++finishes_;
    if (!workers_.empty()) problem_ = "it ends while workers are alive";
    if (finish.code == ExitCode::kDone && !all_zero_) problem_ = "0 after a failure";
    if (finish.reason.empty()) problem_ = "an end without a reason";
  }

  std::mt19937_64 random_;
  SupervisorOptions options_;
  int failure_weight_ = 0;
  bool unkillable_ = false;
  int stop_at_ = -1;
  int second_stop_at_ = -1;

  int per_node_ = 1;
  int node_weight_ = 0;  // of 100 turns, in how many a node goes

  Instant now_{0};
  std::set<int> ready_;            // nodes
  std::map<int, Instant> coming_;  // nodes that are away
  std::map<int, Worker> workers_;
  std::int64_t step_ = 0;
  std::vector<int> nodes_;  // of the incarnation
  int starts_ = 0;
  int planned_ = 0;
  bool growing_ = false;
  int finishes_ = 0;
  bool stopped_ = false;
  bool all_zero_ = true;
  std::string problem_;
};

}  // namespace

TEST_CASE("supervisor: every failure script ends, within the budget, one incarnation at a time", "[launch]") {
  const std::uint64_t scripts = std::getenv("LLMTRAIN_TEST_LONG") == nullptr ? 20'000 : 100'000;
  for (std::uint64_t seed = 1; seed <= scripts; ++seed) {
    const std::string problem = Simulation(seed).run();
    if (!problem.empty()) FAIL("seed " << seed << ": " << problem);
  }
  SUCCEED("every script");
}
