#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/incident_recorder.hpp"
#include "llmtrain/launch/node_messages.hpp"
#include "llmtrain/launch/resume_point.hpp"
#include "llmtrain/launch/supervisor.hpp"
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
  std::int64_t epoch = 0;  // of this leader; 0 on one node
  std::string resolved_yaml;
  // The newest verified checkpoint (0), or one further back (1). Called before each incarnation.
  std::function<Result<ResumePoint>(int rollback)> find_checkpoint;
};

struct AddressedOrder {
  AddressedOrder(int to, NodeOrder what) : node(to), order(std::move(what)) {}
  int node;
  NodeOrder order;
};

class Coordinator {
 public:
  // `files` and `sink` must outlive it.
  Coordinator(CoordinatorOptions options, const RunDir& run, FileSystem& files, EventSink& sink);

  void start(Instant now);
  void receive(Instant now, int node, const NodeReport& report);
  void tick(Instant now);

  std::optional<Instant> deadline() const { return supervisor_.deadline(); }
  std::vector<AddressedOrder> take_orders();
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
  void carry_out(Instant now, const RequestStop& command);
  void carry_out(Instant now, const KillWorkers& command);
  void carry_out(Instant now, const IncarnationFailed& command);
  void carry_out(Instant now, const Finish& command);
  Result<ResumePoint> prepare(const StartWorkers& command);
  void start_failed(Instant now, ExitCode code, const std::string& message, const std::vector<int>& gone);
  void order_all(const NodeOrder& order);
  void show_stderr(int rank);
  void emit(EventBody body);

  int num_nodes() const { return options_.supervisor.num_nodes; }
  int node_of(int rank) const { return rank / options_.procs_per_node; }
  std::vector<int> ranks_of(int node) const;
  std::vector<int> all_ranks() const;

  CoordinatorOptions options_;
  RunDir run_;
  FileSystem& files_;
  EventSink& sink_;
  Supervisor supervisor_;
  IncidentRecorder incidents_;
  std::vector<AddressedOrder> orders_;
  std::int64_t last_step_ = 0;
  ExitCode code_ = ExitCode::kInternal;
};

}  // namespace llmtrain
