#include "launch_options.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/job/fit_nodes.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/spec/write.hpp"

namespace llmtrain {
namespace {

// `launch.env` over what the process has.
std::vector<std::string> worker_environment(const LaunchRequest& request) {
  const auto& added = request.job.spec.launch.env;
  std::vector<std::string> result;
  for (const std::string& entry : request.environment)
    if (!added.contains(entry.substr(0, entry.find('=')))) result.push_back(entry);
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

// One agent holds all ranks, whatever launch.nodes says, unless it is placed among others.
int num_nodes(const LaunchRequest& request, const RunPlan& plan) {
  return request.placement.max_nodes > 1 ? plan.nodes : 1;
}

// Even where workers are killed without being asked first, the kernel needs its time to take them down.
constexpr Milliseconds kLeastKillLimit{3000};

Milliseconds seconds(double value) {
  return Milliseconds{static_cast<std::int64_t>(value * 1e3)};
}

std::optional<DeadlineOptions> deadline_options(const ResilienceSpec& resilience) {
  if (resilience.hang_factor == 0) return std::nullopt;
  DeadlineOptions options;
  options.factor = resilience.hang_factor;
  options.least = seconds(resilience.hang_min_s);
  options.startup_timeout = seconds(resilience.startup_timeout_s);
  options.collective_timeout = seconds(resilience.collective_timeout_s);
  return options;
}

std::optional<StragglerOptions> straggler_options(const ResilienceSpec& resilience) {
  if (resilience.straggler_share == 0) return std::nullopt;
  return StragglerOptions{.share = resilience.straggler_share};
}

LogLimits log_limits(const LogSpec& log) {
  LogLimits limits;
  limits.max_bytes = static_cast<std::uint64_t>(log.max_bytes);
  limits.keep = log.keep;
  return limits;
}

// A flag or the scheduler's variable wins over the job.
Tee tee_of(const LaunchRequest& request) {
  const LogTee wanted = request.job.spec.launch.log.tee;
  const char* const by_job = wanted == LogTee::kAll ? "3" : wanted == LogTee::kFirst ? "0:3" : "0";
  auto tee = Tee::parse(request.placement.tee.value_or(by_job));
  return tee ? std::move(tee).value() : Tee();  // what the placement says was read before
}

std::optional<std::string> log_directory(const LaunchRequest& request) {
  if (!request.placement.log_dir) return std::nullopt;
  std::error_code unknown;
  const auto absolute = std::filesystem::absolute(*request.placement.log_dir, unknown);
  return unknown ? *request.placement.log_dir : absolute.string();
}

// What the scheduler says in the time of day, on the clock of the agent.
std::optional<Instant> end_of_allocation(const LaunchRequest& request) {
  const auto end = request.placement.time_limit_end;
  if (!end) return std::nullopt;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return steady_now() + seconds(*end - now.count());
}

// Numbers of nodes, below all of them, on which an elastic job can go on.
std::vector<int> fewer_nodes(const LaunchRequest& request, int all) {
  std::vector<int> sizes;
  if (!request.job.spec.resilience.elastic) return sizes;
  for (int nodes = request.placement.min_nodes; nodes < all; ++nodes)
    if (fit_to_nodes(request.job.spec, nodes)) sizes.push_back(nodes);
  return sizes;
}

SupervisorOptions supervisor_options(const LaunchRequest& request,
                                     const RunPlan& plan,
                                     int incarnation,
                                     const ResumePoint& point) {
  const ResilienceSpec& resilience = request.job.spec.resilience;
  SupervisorOptions options;
  options.num_workers = plan.world_size;
  options.num_nodes = num_nodes(request, plan);
  options.first_incarnation = incarnation;
  options.committed_step = point.path.empty() ? -1 : point.step;
  options.total_steps = plan.total_steps;
  options.fewer_nodes = fewer_nodes(request, options.num_nodes);
  options.max_restarts = resilience.max_restarts;
  options.restart_window = seconds(resilience.restart_window_s);
  options.on_failure = resilience.on_failure;
  options.no_progress_limit = resilience.no_progress_limit;
  options.stop_grace = seconds(resilience.stop_grace_s);
  options.kill_limit = std::clamp(options.stop_grace, kLeastKillLimit, options.kill_limit);
  options.join_timeout = join_timeout(request);
  options.shrink_grace = std::min(options.shrink_grace, options.join_timeout);
  options.spare_grace = std::min(options.spare_grace, options.join_timeout);
  return options;
}

}  // namespace

// A closed standard stream would give its number to the next file, and the child's output would go there.
void open_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= 2) fd = open("/dev/null", O_RDWR);
  if (fd > 2) close(fd);
}

Status check_invariants(FileSystem& files, const ResumePoint& point, const JobSpec& spec) {
  if (point.path.empty()) return ok_status();
  LLMTRAIN_ASSIGN(reader, CheckpointReader::open(files, point.path));
  const auto differs = [&](const char* field, auto saved, auto wanted) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("{} is {}, but {} was trained with {}", field, wanted, point.path, saved),
                 "a run keeps it for life: set it back, or choose another run.dir"};
  };
  if (reader.state().seed != spec.run.seed) return differs("run.seed", reader.state().seed, spec.run.seed);
  LLMTRAIN_ASSIGN(saved, parse_resolved(reader.state().spec_yaml, point.path));
  const auto batch = *spec.batch.global_batch_size;
  if (*saved.batch.global_batch_size != batch)
    return differs("batch.global_batch_size", *saved.batch.global_batch_size, batch);
  if (saved.data.seq_length != spec.data.seq_length)
    return differs("data.seq_length", saved.data.seq_length, spec.data.seq_length);
  return ok_status();
}

std::vector<int> stop_signals(const LaunchRequest& request) {
  std::vector<int> numbers;
  for (const StopSignal signal : request.job.spec.launch.stop_signals) switch (signal) {
      case StopSignal::kTerm: numbers.push_back(SIGTERM); break;
      case StopSignal::kInt: numbers.push_back(SIGINT); break;
      case StopSignal::kHup: numbers.push_back(SIGHUP); break;
      case StopSignal::kUsr1: numbers.push_back(SIGUSR1); break;
      case StopSignal::kUsr2: numbers.push_back(SIGUSR2); break;
    }
  return numbers;
}

Milliseconds join_timeout(const LaunchRequest& request) {
  return seconds(request.job.spec.launch.join_timeout_s);
}

HandsOptions hands_options(const LaunchRequest& request, const RunDir& run, const OrphanGuard& guard) {
  HandsOptions options;
  options.worker.executable = request.executable;
  options.worker.environment = worker_environment(request);
  options.worker.environment.push_back(guard.mark());
  options.aids = {guard.pid()};
  options.worker.log = log_limits(request.job.spec.launch.log);
  options.tee = tee_of(request);
  options.log_dir = log_directory(request);
  options.worker.request.run_dir = run.root().string();
  options.worker.request.engine_path = request.engine_path;
  if (request.placement.max_nodes > 1) options.worker.request.address = request.placement.address;
  // Inside the workers every wait has its own deadline; this one is for when all of them stand still.
  const double timeout_s = request.job.spec.resilience.collective_timeout_s;
  options.stall_limit =
      std::max(Milliseconds{static_cast<std::int64_t>(timeout_s * 2e3)}, request.shortest_stall);
  return options;
}

CoordinatorOptions coordinator_options(const LaunchRequest& request,
                                       const RunDir& run,
                                       FileSystem& files,
                                       int incarnation,
                                       const ResumePoint& point) {
  const RunPlan plan = plan_run(request.job.spec);
  CoordinatorOptions options;
  options.supervisor = supervisor_options(request, plan, incarnation, point);
  options.procs_per_node = plan.world_size / num_nodes(request, plan);
  options.resolved_yaml = request.job.resolved_yaml;
  options.resolve_for = [spec = request.job.spec](int nodes) -> Result<std::string> {
    LLMTRAIN_ASSIGN(fitted, fit_to_nodes(spec, nodes));
    return to_yaml(to_tree(fitted));
  };
  options.deadlines = deadline_options(request.job.spec.resilience);
  options.stragglers = straggler_options(request.job.spec.resilience);
  options.time_limit = end_of_allocation(request);
  if (options.time_limit) options.known_save = longest_save(files, run);
  // The first incarnation takes what was verified a moment ago.
  options.find_checkpoint =
      [&files, checkpoints = run.checkpoints().string(), first = std::optional(point)](int rollback) mutable {
        if (first) return Result<ResumePoint>(*std::exchange(first, std::nullopt));
        return find_resume_point(files, checkpoints, rollback);
      };
  return options;
}

Status check_usable(FileSystem& files,
                    const RunDir& run,
                    const LaunchRequest& request,
                    const std::string& probe) {
  LLMTRAIN_ASSIGN(used, is_used(files, run));
  if (used && request.job.spec.checkpoint.resume == ResumePolicy::kNever && !request.needs_checkpoint)
    return Error{ErrorCode::kUsage,
                 fmt::format("checkpoint.resume is `never`, but {} holds a run already", run.root().string()),
                 "choose another run.dir, or `checkpoint.resume: auto` to go on"};
  return check_writable(files, run, probe);
}

Status check_has_checkpoint(const LaunchRequest& request, const RunDir& run, const ResumePoint& point) {
  if (!request.needs_checkpoint || !point.path.empty()) return ok_status();
  return Error{ErrorCode::kNoCheckpoint,
               fmt::format("{} holds no checkpoint to resume from", run.root().string()),
               "start it with `llmtrain launch`"};
}

std::optional<std::string> finished_text(const LaunchRequest& request,
                                         const RunDir& run,
                                         const ResumePoint& point) {
  const std::int64_t total_steps = plan_run(request.job.spec).total_steps;
  if (point.path.empty() || point.step < total_steps) return std::nullopt;
  return fmt::format("{} is finished: step {} of {} is committed; a longer train.duration goes on",
                     run.root().string(),
                     point.step,
                     total_steps);
}

}  // namespace llmtrain
