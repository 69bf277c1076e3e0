#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/instant.hpp"

// Decides whether the right processes are alive: events in, commands out.
//
// A pure state machine. It starts nothing, kills nothing, reads no clock and knows no pid: time is an
// argument, and the agent carries the commands out. Two incarnations never overlap: StartWorkers is
// issued only when every worker of the one before has been reported gone, and every node is ready.
namespace llmtrain {

struct SupervisorOptions {
  int num_workers = 1;
  int num_nodes = 1;
  int first_incarnation = 0;
  std::int64_t committed_step = -1;  // of the newest verified checkpoint; -1 = there is none
  int max_restarts = 10;
  int no_progress_limit = 3;        // restarts in a row without a new step
  Milliseconds stop_grace{30'000};  // from the request to stop to the kill
  Milliseconds settle{300};         // how long the real cause of a lost peer may take to show up
  Milliseconds kill_limit{30'000};  // a killed worker that is not gone by then cannot be killed
  Milliseconds backoff_first{100};  // before the second restart in a row without a new step; doubles
  Milliseconds backoff_max{10'000};
  Milliseconds join_timeout{600'000};  // how long an incarnation waits for nodes that are not there
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
  int rollback = 0;  // continue from the newest verified checkpoint (0), or from one further back (1)
};
struct RequestStop {};            // ask every worker to stop after its step
struct KillWorkers {};            // SIGKILL every process of the incarnation
struct IncarnationFailed {        // every worker is gone; comes before the restart or the end
  std::optional<int> first_rank;  // absent: no worker failed by itself, all of them waited for somebody
  std::optional<int> first_node;  // a whole node went away; its first rank is first_rank
  bool restarts = false;
  int num_restarts = 0;   // so far, the coming one included
  Milliseconds delay{0};  // until StartWorkers
};
struct Finish {
  ExitCode code = ExitCode::kDone;
  std::string reason;
};
using Command = std::variant<StartWorkers, RequestStop, KillWorkers, IncarnationFailed, Finish>;
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
  // A worker makes no progress although nobody waits for it: it is killed and counts as the cause.
  Commands worker_stalled(Instant now, int rank);
  // The agent could not do its part (start a worker, read a checkpoint): the job ends with `code`.
  Commands abort(Instant now, ExitCode code, const std::string& reason);
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
  bool gathering() const { return state_ == State::kGathering; }

 private:
  enum class State { kIdle, kGathering, kRunning, kSettling, kKilling, kBackoff, kDone };

  Commands kill(Instant now);
  Commands all_gone(Instant now);
  Commands after_failure(Instant now);
  Commands finish(ExitCode code, const std::string& reason);
  Commands start_workers(Instant now);
  Commands gathering_timed_out();
  Commands finish_stopped();
  void note_failure(const WorkerEnd& end);

  SupervisorOptions options_;
  State state_ = State::kIdle;
  std::optional<Instant> deadline_;
  int incarnation_;
  std::set<int> alive_;  // ranks
  std::set<int> ready_;  // nodes
  bool stopping_ = false;

  // Of the incarnation that runs.
  bool failed_ = false;
  bool hung_ = false;  // workers waited for each other or stood still; nobody crashed
  bool any_stopped_ = false;
  std::optional<int> first_rank_;
  std::optional<int> first_node_;
  std::optional<ExitCode> final_code_;
  std::string final_reason_;

  // Over incarnations.
  int restarts_ = 0;
  int without_progress_ = 0;  // failures in a row without a new step
  int failures_at_step_ = 0;  // failures in a row with the same last finished step
  std::int64_t best_step_;
  std::int64_t best_step_at_failure_;
  std::int64_t committed_step_;
};

}  // namespace llmtrain
