#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <poll.h>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/diagnosis/deadlines.hpp"
#include "llmtrain/diagnosis/failure_evidence.hpp"
#include "llmtrain/diagnosis/straggler_watch.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/background_search.hpp"
#include "llmtrain/launch/incident_recorder.hpp"
#include "llmtrain/launch/key_values.hpp"
#include "llmtrain/launch/node_messages.hpp"
#include "llmtrain/launch/resume_point.hpp"
#include "llmtrain/launch/run_clock.hpp"
#include "llmtrain/launch/silent_nodes.hpp"
#include "llmtrain/launch/status_writer.hpp"
#include "llmtrain/launch/supervisor.hpp"
#include "llmtrain/launch/time_limit.hpp"
#include "llmtrain/monitor/events.hpp"

// What the leader knows and does: reports of all nodes in, orders to all nodes out.
//
// It turns reports into what the Supervisor understands and its commands into orders, and it is the only
// writer of the run's metrics, events and incidents. It holds no process and no socket: whoever owns it
// carries reports and orders, within a process or between hosts.
namespace llmtrain {

struct CoordinatorOptions {
  SupervisorOptions supervisor;
  int procs_per_node = 1;
  std::int64_t epoch = 0;     // of this leader; 0 on one node
  bool successor = false;     // it takes over from a leader that was lost
  std::string resolved_yaml;  // for all nodes
  // The same for fewer nodes: those of supervisor.fewer_nodes.
  std::function<Result<std::string>(int nodes)> resolve_for;
  // The newest verified checkpoint (0), or one further back (1). Called before each incarnation.
  std::function<Result<ResumePoint>(int rollback)> find_checkpoint;
  std::optional<DeadlineOptions> deadlines;    // absent: nobody watches how long phases take
  std::optional<StragglerOptions> stragglers;  // absent: nobody compares ranks
  std::optional<Instant> time_limit;           // when the allocation ends
  std::optional<Milliseconds> known_save;      // how long saves of this run took before
  bool in_background = false;                  // search on a thread of its own
  int node = 0;                                // the leader's own
  std::string host;                            // and its name
  std::vector<std::string> topology_order;     // names of hosts in the order in which ranks go; may be empty
};

// What the leader wants of the group of agents.
struct MembershipChange {
  enum class Kind { kGiveUp, kExclude, kPromoteSpare };
  Kind kind = Kind::kGiveUp;
  int node = 0;
  std::string reason = {};  // of kExclude, for the agent that is refused
};

struct AddressedOrder {
  AddressedOrder(int to, const NodeOrder& what) : node(to), order(what) {}
  int node;
  NodeOrder order;
};

class Coordinator {
 public:
  // `files` and `sink` must outlive it.
  Coordinator(CoordinatorOptions options, const RunDir& run, FileSystem& files, EventSink& sink);

  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  void start(Instant now);
  void receive(Instant now, int node, const NodeReport& report);
  void tick(Instant now);
  void abort(Instant now, ExitCode code, const std::string& reason);

  // What the leader is told of the others. A node that joins says with NodeReady when it can start workers.
  void node_joined(Instant now, int node, const std::string& host, std::int64_t pid = 0);
  void node_silent(Instant now, int node, bool link_acks);
  void node_back(Instant now, int node);
  void node_lost(Instant now, int node, const std::string& reason);
  void spare_joined(Instant now, const std::string& host);

  std::optional<Instant> deadline() const;
  void add_poll_fds(std::vector<pollfd>& fds) const;
  std::vector<AddressedOrder> take_orders();
  std::vector<MembershipChange> take_changes();
  // Nodes that others may still reach were given up, and nothing runs: those on the other side may go on.
  bool cut_off() const { return supervisor_.gathering() && !unreachable_.empty(); }
  bool done() const { return supervisor_.done(); }
  ExitCode code() const { return code_; }

  void note(Severity severity, const std::string& text, int rank = -1);

 private:
  void receive_from(Instant now, int node, const NodeReady&);
  void receive_from(Instant now, int node, const StartFailed& report);
  void receive_from(Instant now, int node, const WorkerSaid& report);
  void receive_from(Instant now, int node, const WorkerLeft& report);
  void receive_from(Instant now, int node, const RanksSeen& report);
  void receive_from(Instant now, int node, const WorkerStalled& report);
  void receive_from(Instant now, int node, const StopAsked& report);
  void receive_from(Instant now, int node, const NodeSaid& report);
  void receive_from(Instant now, int node, const StoreAsked& report);

  void carry_out(Instant now, const Commands& commands);
  void carry_out(Instant now, const StartWorkers& command);
  void carry_out(Instant now, const PlannedRestart& command);
  void carry_out(Instant now, const RequestStop& command);
  void carry_out(Instant now, const KillWorkers& command);
  void carry_out(Instant now, const IncarnationFailed& command);
  void write_history(Instant now);
  void carry_out(Instant now, const Finish& command);
  Result<ResumePoint> prepare(const StartWorkers& command, const std::string& yaml);
  void search(const StartWorkers& command);
  void search_finished(Instant now);
  void start_from(Instant now, const Result<ResumePoint>& from);
  void order_start(const std::string& checkpoint);
  SupervisorOptions supervisor_options();
  bool searching() const { return search_wanted_.has_value(); }
  void start_cancelled(Instant now);
  void count_as_gone(Instant now, std::vector<int> ranks);
  void answer(const std::vector<AddressedReply>& replies);
  void note_steps(Instant now, std::int64_t step);
  void note_times(Instant now, const EventBody& body);
  void watch_progress(Instant now);
  void report_straggler(const StragglerChange& change);
  void watch_time_limit(Instant now);
  void blame_stalled(Instant now, int rank, const std::string& text);
  JudgedFailure judge_failure(const FailureSigns& signs);
  void arrange_nodes(const std::vector<int>& nodes);
  void exclude_node(int node);
  bool is_idle(int node) const;
  void let_leavers_go();
  void lose_node(Instant now, const LostNode& lost);
  bool takes_over_from(int incarnation) const;
  void charge_lost_leader(Instant now, const LostNode& lost);
  void close_lost_leader(Instant now);
  std::string name_of(int node) const;
  void write_status(Instant now);
  NodeStatus status_of(int node) const;
  void start_failed(Instant now, ExitCode code, const std::string& message, const std::vector<int>& gone);
  void order_all(const NodeOrder& order);
  void show_stderr(int rank);
  void emit(EventBody body);

  int num_nodes() const { return options_.supervisor.num_nodes; }
  int node_of(int rank) const { return slots_.at(static_cast<std::size_t>(rank / options_.procs_per_node)); }
  std::vector<int> ranks_of(int node) const;
  std::vector<int> all_ranks() const;

  CoordinatorOptions options_;
  RunDir run_;
  FileSystem& files_;
  EventSink& sink_;
  const RunClock clock_;
  Supervisor supervisor_;
  IncidentRecorder incidents_;
  std::vector<AddressedOrder> orders_;
  std::vector<MembershipChange> changes_;

  std::vector<int> slots_;            // the node whose ranks come first, second, ...
  std::map<int, std::string> hosts_;  // of the nodes that are there
  std::map<int, std::int64_t> pids_;  // of their agents, where they are known
  std::set<int> unreachable_;         // given up behind a dead link, and not seen since
  SilentNodes silent_;
  KeyValues store_;
  std::optional<ProgressWatch> progress_;
  std::optional<StragglerWatch> stragglers_;
  TimeLimit time_limit_;
  std::optional<Instant> stepped_;  // when the incarnation's last step was heard of
  StatusWriter status_;
  std::map<int, std::vector<std::string>> last_words_;  // of ranks that failed, of this incarnation
  FailureEvidence evidence_;
  bool has_started_ = false;                // an incarnation, as the leader
  bool lost_leader_ = false;                // an incident that waits for what the survivors saw
  FailureVerdict verdict_;                  // of the failure that is decided on
  std::map<int, StartOrder> start_orders_;  // of the incarnation, by node
  std::string yaml_;                        // resolved, of the incarnation
  std::map<int, int> stops_;                // stop signals by node
  std::map<int, bool> leaving_;             // nodes that go while the job goes on; true: told that they may
  std::int64_t best_step_ = 0;

  BackgroundSearch search_;
  std::optional<StartWorkers> search_wanted_;  // the incarnation that waits for its checkpoint
  bool search_is_old_ = false;                 // what runs was started for another one
  bool stop_after_start_ = false;
  std::int64_t last_step_ = 0;
  ExitCode code_ = ExitCode::kInternal;
  FinishOrder finish_;
};

}  // namespace llmtrain
