#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/launch/failure_policy.hpp"

// Decides whether the right processes are alive: events in, commands out.
//
// A pure state machine. It starts nothing, kills nothing, reads no clock and knows no pid: time is an
// argument, and the agent carries the commands out. Two incarnations never overlap: StartWorkers is
// issued only when every worker of the one before has been reported gone, and every node is ready, or those
// of an elastic job that are left. What a failure is, its owner judges; what follows, FailurePolicy decides.
namespace llmtrain {

// What is known of a failure here, before it is judged.
struct FailureSigns {
  std::optional<int> first_rank;
  std::optional<int> first_node;  // a whole node went away
  bool hung = false;
  std::vector<int> unkillable;  // ranks that SIGKILL did not end
};
struct JudgedFailure {
  FailureKind kind = FailureKind::kUnknown;
  std::optional<int> node;        // of the culprits, when they are on one
  std::set<int> useless_nodes{};  // of ranks that SIGKILL did not end
  bool before_load = false;       // it came before any rank had read of the checkpoint
};

struct SupervisorOptions {
  int num_workers = 1;  // on all nodes, as many on each
  int num_nodes = 1;
  // An elastic job: numbers of nodes, ascending and below num_nodes, on which it can go on.
  std::vector<int> fewer_nodes;
  int first_incarnation = 0;
  std::int64_t committed_step = -1;  // of the newest verified checkpoint; -1 = there is none
  std::int64_t total_steps = 0;  // of the run: with that many committed nothing is left to do; 0 = not known
  int max_restarts = 10;
  Milliseconds restart_window{0};  // 0 = the life of the supervisor
  int no_progress_limit = 3;       // restarts in a row without a new step
  OnFailureSpec on_failure;
  std::optional<RestartHistory> history;  // of the leader before
  // Called once for each failure, when its last worker is gone; absent: told from the signs alone.
  std::function<JudgedFailure(const FailureSigns&)> judge;
  Milliseconds stop_grace{30'000};  // from the request to stop to the kill
  Milliseconds settle{300};         // how long the real cause of a lost peer may take to show up
  Milliseconds kill_limit{30'000};  // a killed worker that is not gone by then cannot be killed
  Milliseconds backoff_first{100};  // before the third start in a row at one step; doubles
  Milliseconds backoff_max{10'000};
  Milliseconds join_timeout{600'000};  // how long an incarnation waits for nodes that are not there
  Milliseconds shrink_grace{30'000};   // and an elastic one, from when the last of them went away
  // How long nodes that are back wait for a checkpoint, before the job is stopped, and so saves, for them.
  Milliseconds grow_patience{60'000};
  Milliseconds spare_grace{10'000};  // how long a spare may take to replace a node that was left out
};

// How a worker process ended: a signal, or an exit code (core/exit_code.hpp, job/worker_exit.hpp).
struct WorkerEnd {
  int rank = 0;
  bool signaled = false;
  int code = 0;  // the signal's number if `signaled`
};

// What an exit means for the job.
enum class ExitClass {
  kFinished,
  kStoppedSaved,
  kStoppedUnsaved,
  kLostPeer,  // a consequence: never the first cause
  kCrash,     // may be tried again
  kFinal,     // trying again would end the same way: the job ends with this code
};
ExitClass classify(const WorkerEnd& end);

// Commands, in the order in which they are to be carried out.
struct StartWorkers {
  int incarnation = 0;
  int rollback = 0;        // continue from the newest verified checkpoint (0), or from one further back (1)
  std::vector<int> nodes;  // that take part, ascending; all of them unless the job is elastic
};
struct PlannedRestart {  // no failure: nodes have come, or leave. Comes before StartWorkers
  std::string reason;
};
struct RequestStop {};            // ask every worker to stop after its step
struct KillWorkers {};            // SIGKILL every process of the incarnation
struct IncarnationFailed {        // every worker is gone; comes before the restart or the end
  std::optional<int> first_rank;  // absent: no worker failed by itself, all of them waited for somebody
  std::optional<int> first_node;  // a whole node went away; its first rank is first_rank
  bool restarts = false;
  int num_restarts = 0;         // within the window, the coming one included
  int rollback = 0;             // of the restart
  std::set<int> excluded;       // these nodes are to be given up and not to be let in again
  Milliseconds delay{0};        // until StartWorkers
  std::vector<int> unkillable;  // ranks that are left behind: SIGKILL did not end them
};
struct Finish {
  ExitCode code = ExitCode::kDone;
  std::string reason;
};
using Command =
    std::variant<StartWorkers, PlannedRestart, RequestStop, KillWorkers, IncarnationFailed, Finish>;
using Commands = std::vector<Command>;

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options);

  Commands start(Instant now);
  Commands worker_ended(Instant now, const WorkerEnd& end);
  Commands stop_requested(Instant now);
  // No worker is left on this node and it can start some. A single node is ready from the beginning.
  Commands node_ready(Instant now, int node);
  // The node is gone, and with it those of `ranks` that were alive. An incarnation that they were part of
  // has failed; without one nothing is charged.
  Commands node_lost(Instant now, int node, const std::vector<int>& ranks);
  // The leader before is gone: whatever has not started yet is charged for that.
  Commands leader_lost(Instant now);
  // Whether the others could go on without this node if it left now: the job is elastic, and enough stay.
  bool can_spare(int node) const;
  // It is asked to leave: all save and stop, and start again without it. It stays until it is lost.
  Commands node_leaves(Instant now, int node);
  // A worker makes no progress although nobody waits for it: it is killed and counts as the cause.
  Commands worker_stalled(Instant now, int rank);
  // The agent could not do its part (start a worker, read a checkpoint): the job ends with `code`.
  Commands abort(Instant now, ExitCode code, const std::string& reason);
  // A checkpoint has just been committed. A job on fewer nodes than could run is stopped to start on more;
  // tick() does the same when there is none for long.
  Commands grow(Instant now);
  // Time has passed. Due at deadline(), harmless at any other time.
  Commands tick(Instant now);

  void step_finished(std::int64_t step);
  void checkpoint_committed(std::int64_t step);

  std::optional<Instant> deadline() const { return deadline_; }
  bool done() const { return state_ == State::kDone; }
  bool stopping() const { return stopping_; }
  int incarnation() const { return incarnation_; }
  bool alive(int rank) const { return alive_.contains(rank); }
  bool running() const { return state_ == State::kRunning; }
  bool hung() const { return hung_; }  // of this incarnation: nobody has crashed
  bool killing() const { return state_ == State::kKilling; }
  bool gathering() const { return state_ == State::kGathering; }
  bool growing() const { return growing_ && !failed_; }  // what ends now ends by plan
  // Failures in a row with the same last finished step, a coming one included.
  int crashes_at_step() const { return policy_.crashes_at(best_step_); }
  int num_restarts() const { return policy_.num_restarts(); }
  RestartHistory history(Instant now) const { return policy_.history(now); }  // for the next leader

 private:
  enum class State { kIdle, kGathering, kRunning, kSettling, kKilling, kBackoff, kDone };

  Commands kill(Instant now);
  Commands all_gone(Instant now);
  Commands after_failure(Instant now);
  Commands finish(ExitCode code, const std::string& reason);
  Commands start_workers(Instant now);
  Commands gather(Instant now);
  Commands gathering_timed_out();
  Commands start_again(Instant now);
  int best_of(int ready) const;
  std::vector<int> usable_nodes(Instant now) const;
  int best_size() const;
  bool exclude(int node, Instant now);
  JudgedFailure judge() const;
  int per_node() const { return options_.num_workers / options_.num_nodes; }
  Commands finish_stopped();
  void note_failure(const WorkerEnd& end);
  Commands leave_unkillable(Instant now);
  std::string name_unkillable() const;

  SupervisorOptions options_;
  FailurePolicy policy_;
  State state_ = State::kIdle;
  std::optional<Instant> deadline_;
  int incarnation_;
  std::set<int> alive_;     // ranks
  std::set<int> ready_;     // nodes
  std::vector<int> nodes_;  // of the incarnation
  bool stopping_ = false;
  Instant away_since_{0};  // when the last node went away that was there
  Instant give_up_at_{0};  // while gathering
  std::set<int> leaving_;  // asked to, and still there
  std::optional<Instant> grow_at_;
  std::optional<int> replacing_;  // the node that was left out and needs a spare

  // Of the incarnation that runs.
  bool failed_ = false;
  bool hung_ = false;  // workers waited for each other or stood still; nobody crashed
  bool any_stopped_ = false;
  bool growing_ = false;  // or shrinking, because a node leaves: a stop that ends nothing
  bool aborted_ = false;
  std::optional<int> first_rank_;
  std::optional<int> first_node_;
  std::optional<ExitCode> final_code_;
  std::string final_reason_;
  std::vector<int> unkillable_;  // ranks

  // Over incarnations.
  int rollback_ = 0;
  std::int64_t best_step_;
  std::int64_t committed_step_;
};

}  // namespace llmtrain
