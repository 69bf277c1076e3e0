#include "launch_on_nodes.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/control/control_group.hpp"
#include "llmtrain/control/token.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/launch/group_agent.hpp"
#include "llmtrain/launch/job_digests.hpp"
#include "llmtrain/launch/run_files.hpp"

#include "launch_options.hpp"

namespace llmtrain {
namespace {

Result<std::string> find_token(const NodePlacement& placement, const RunDir& run) {
  if (placement.token) return *placement.token;
  return placement.token_file ? read_token(*placement.token_file) : make_or_read_token(run.token().string());
}

Result<ControlOptions> control_options(const LaunchRequest& request, const RunDir& run, FileSystem& files) {
  const NodePlacement& placement = request.placement;
  const RunPlan plan = plan_run(request.job.spec);
  LLMTRAIN_ASSIGN(digests,
                  make_job_digests(files, request.executable, request.job.resolved_yaml, request.job.spec));
  ControlOptions options;
  options.self.rdzv_id = placement.rdzv_id.empty() ? request.job.spec.run.name : placement.rdzv_id;
  options.self.host = placement.host;
  options.self.address = placement.address;
  options.self.node_rank = placement.node_rank;
  options.self.num_workers = plan.procs_per_node;
  options.self.build = digests.build;
  options.self.job_digest = digests.job;
  options.self.data_digest = digests.data;
  options.self.pid = getpid();
  options.min_nodes = placement.min_nodes;
  options.max_nodes = placement.max_nodes;
  options.world_nodes = plan.nodes;
  options.endpoint = placement.endpoint;
  options.founder = placement.founder;
  options.control_dir = run.control().string();
  options.expected_hosts = placement.expected_hosts;
  options.join_timeout = join_timeout(request);
  LLMTRAIN_ASSIGN(token, find_token(placement, run));
  options.token = std::move(token);
  return options;
}

// A run that is finished is finished on every node, whenever it looks.
Result<std::optional<std::string>> find_finished(const LaunchRequest& request,
                                                 const RunDir& run,
                                                 FileSystem& files) {
  LLMTRAIN_ASSIGN(newest, find_newest(files, run.checkpoints().string(), VerifyDepth::kSizes));
  ResumePoint point;
  if (newest.chosen) {
    point.path = newest.chosen->path;
    point.step = newest.chosen->step;
  }
  return finished_text(request, run, point);
}

// The lock keeps a launch on one node out. A leader that stands still may hold it for ever: its successor
// is guarded by the lease.
Result<std::optional<RunLock>> lock_run(const RunDir& run, bool successor) {
  auto lock = RunLock::acquire((run.control() / "lock").string());
  if (lock) return std::optional(std::move(lock).value());
  if (successor && lock.error().code == ErrorCode::kHeld) return std::optional<RunLock>();
  return lock.error();
}

Result<Leadership> lead(const LaunchRequest& request,
                        const RunDir& run,
                        FileSystem& files,
                        const MakeSink& make_sink,
                        const GroupAgentOptions::Epoch& epoch,
                        const ResumePoint& point,
                        const std::optional<std::string>& log_dir) {
  Leadership leadership;
  LLMTRAIN_ASSIGN(lock, lock_run(run, epoch.successor));
  leadership.lock = std::move(lock);
  if (!epoch.successor) {
    LLMTRAIN_TRY(check_usable(files, run, request, "probe"));
    LLMTRAIN_TRY(check_has_checkpoint(request, run, point));
  }
  LLMTRAIN_TRY(check_invariants(files, point, request.job.spec));
  if (finished_text(request, run, point)) return leadership;

  LLMTRAIN_ASSIGN(incarnation, next_incarnation(files, run));
  LLMTRAIN_TRY(write_source_spec(files, run, request.job.source_yaml));
  LLMTRAIN_TRY(write_log_place(files, run, log_dir));
  LLMTRAIN_ASSIGN(sink, make_sink(run));
  leadership.sink = std::move(sink);
  CoordinatorOptions options = coordinator_options(request, run, files, incarnation, point);
  if (epoch.successor) {
    auto history = read_restart_history(files, run.restarts().string());
    if (!history) request.say("restarts before are not counted: " + to_string(history.error()));
    if (history) options.supervisor.history = std::move(history).value();
  }
  options.epoch = epoch.epoch;
  options.successor = epoch.successor;
  options.in_background = true;
  options.node = epoch.node;
  options.host = request.placement.host;
  options.topology_order = request.placement.topology_order;
  leadership.coordinator = std::make_unique<Coordinator>(std::move(options), run, files, *leadership.sink);
  return leadership;
}

std::vector<Silence> silences(const JobSpec& spec) {
  std::vector<Silence> result;
  for (const FaultSpec& fault : spec.faults)
    if (fault.kind == FaultKind::kDropHeartbeats)
      result.push_back({fault.rank, fault.incarnation, fault.step, Milliseconds{fault.ms}});
  return result;
}

}  // namespace

Result<LaunchOutcome> launch_on_nodes(const LaunchRequest& request,
                                      const RunDir& run,
                                      const OrphanGuard& guard,
                                      FileSystem& files,
                                      const MakeSink& make_sink) {
  LLMTRAIN_ASSIGN(finished, find_finished(request, run, files));
  if (finished) return LaunchOutcome{ExitCode::kDone, std::move(*finished)};
  LLMTRAIN_ASSIGN(control, control_options(request, run, files));
  LLMTRAIN_ASSIGN(group, ControlGroup::open(std::move(control), files));

  GroupAgentOptions options;
  options.hands = hands_options(request, run, guard);
  options.stop_signals = stop_signals(request);
  options.say = request.say;
  options.silences = silences(request.job.spec);
  options.find_checkpoint = [&] { return find_resume_point(files, run.checkpoints().string(), 0); };
  options.lead = [&, log_dir = options.hands.log_dir](const GroupAgentOptions::Epoch& epoch,
                                                      const ResumePoint& point) {
    return lead(request, run, files, make_sink, epoch, point, log_dir);
  };
  GroupAgent agent(std::move(options), *group, run, files);
  return LaunchOutcome{agent.run(), {}};
}

}  // namespace llmtrain
