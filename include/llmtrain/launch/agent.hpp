#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/incident_recorder.hpp"
#include "llmtrain/launch/resume_point.hpp"
#include "llmtrain/launch/stop_signals.hpp"
#include "llmtrain/launch/supervisor.hpp"
#include "llmtrain/launch/worker_process.hpp"
#include "llmtrain/monitor/events.hpp"

// The node's agent: it carries out what the Supervisor decides and tells it what happens.
//
// One thread, one poll loop over process descriptors, stop signals, control sockets and deadlines. It is
// the only writer of the run's metrics and events: workers send theirs to it. It maps no libtorch.
namespace llmtrain {

struct AgentOptions {
  WorkerLaunch worker;  // what all workers share; rank, incarnation, resume path and descriptors are set here
  int num_workers = 1;
  std::string resolved_yaml;
  SupervisorOptions supervisor;
  // A worker whose heartbeat stands still for this long is taken for hung; 0 = no watch.
  Milliseconds stall_limit{0};
  // The newest verified checkpoint (0), or one further back (1). Called before each incarnation.
  std::function<Result<ResumePoint>(int rollback)> find_checkpoint;
};

class Agent {
 public:
  // `files` and `sink` must outlive the agent.
  Agent(AgentOptions options, const RunDir& run, FileSystem& files, EventSink& sink);

  // Runs the job to its end and returns its code. No process of the job is left then.
  ExitCode run();

 private:
  void wait_for_events(const StopSignals& signals);
  void read_events(WorkerProcess& worker);
  void handle(Event event);
  void handle_signals(StopSignals& signals);
  void handle_ends();
  void watch_progress();

  void carry_out(const Commands& commands);
  void carry_out(const StartWorkers& command);
  void carry_out(const RequestStop& command);
  void carry_out(const KillWorkers& command);
  void carry_out(const IncarnationFailed& command);
  void carry_out(const Finish& command);
  Status start_incarnation(const StartWorkers& command);
  Status start_worker(int rank, const ResumePoint& from, int shm_fd);
  void look_at_workers();
  void show_stderr(int rank);
  void emit(EventBody body);
  void note(Severity severity, const std::string& text, int rank = -1);

  AgentOptions options_;
  RunDir run_;
  FileSystem& files_;
  EventSink& sink_;
  Supervisor supervisor_;
  IncidentRecorder incidents_;
  std::map<int, WorkerProcess> workers_;  // alive, by rank
  std::set<int> garbled_;                 // ranks whose messages were not understood: said once
  Instant started_{0};                    // of this incarnation
  bool killing_ = false;                  // ends from now on are the agent's own doing
  std::int64_t last_step_ = 0;
  ExitCode code_ = ExitCode::kInternal;
};

}  // namespace llmtrain
