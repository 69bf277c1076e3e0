#include <chrono>
#include <cstdio>
#include <memory>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/launch_job.hpp"
#include "llmtrain/monitor/console_sink.hpp"
#include "llmtrain/monitor/fan_out.hpp"
#include "llmtrain/monitor/jsonl_sink.hpp"
#include "llmtrain/monitor/tensorboard_sink.hpp"

#include "commands.hpp"
#include "engine.hpp"
#include "job_arguments.hpp"
#include "launch_flags.hpp"

// `llmtrain launch JOB` and `llmtrain resume RUN_DIR|JOB`: one process on each node that the user or a
// scheduler starts, one child for each rank.
namespace llmtrain::cli {
namespace {

struct LaunchOptions {
  JobArguments job;
  PlacementArguments placement;
  std::string engine;
};

std::vector<std::string> process_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) result.emplace_back(*entry);
  return result;
}

MakeSink sinks_for(const JobSpec& spec) {
  return [&spec](const RunDir& run) -> Result<std::unique_ptr<EventSink>> {
    auto all = std::make_unique<FanOut>();
    LLMTRAIN_ASSIGN(jsonl, JsonlSink::open(run.root().string()));
    all->add(std::move(jsonl));
    if (spec.monitoring.tensorboard) {
      const std::chrono::duration<double> time = std::chrono::system_clock::now().time_since_epoch();
      LLMTRAIN_ASSIGN(board, TensorBoardSink::open(run.tensorboard().string(), time.count()));
      all->add(std::move(board));
    }
    all->add(std::make_unique<ConsoleSink>(console_options(STDERR_FILENO, spec.train.log_interval),
                                           write_to(STDERR_FILENO)));
    return std::unique_ptr<EventSink>(std::move(all));
  };
}

int start(const char* command,
          const LaunchOptions& options,
          Result<LoadedJob> job,
          const NodePlacement& placement,
          bool needs_checkpoint) {
  if (!job) return report_error(command, job.error());
  print_diagnostics(job->warnings);
  LaunchRequest request;
  request.job = std::move(job).value();
  request.needs_checkpoint = needs_checkpoint;
  const std::string device = request.job.spec.run.device == Device::kCuda ? "cuda" : "cpu";
  auto engine = find_engine(options.engine, device);
  if (!engine) return report_error(command, engine.error());
  request.engine_path = std::move(engine).value();
  request.environment = process_environment();
  request.placement = placement;
  request.say = [command](const std::string& text) {
    fmt::print(stderr, "llmtrain {}: {}\n", command, text);
  };

  const auto files = make_posix_filesystem();
  const auto outcome = launch_job(request, *files, sinks_for(request.job.spec));
  if (!outcome) return report_error(command, outcome.error());
  if (!outcome->message.empty()) fmt::print(stderr, "llmtrain {}: {}\n", command, outcome->message);
  return to_int(outcome->code);
}

// Flags are read once, so that both readings of a job see the same.
template <class Load>
int run(const char* command, const LaunchOptions& options, bool needs_checkpoint, Load load) {
  const JobSource source = job_source(options.job, MissingData::kRefuse);
  const auto flags = launch_flags(options.placement, options.job);
  if (!flags) return report_error(command, flags.error());
  auto job = load_placed(source, *flags, load);
  if (!job) return report_error(command, job.error());
  const auto placement = place_node(*flags, source, job->spec);
  if (!placement) return report_error(command, placement.error());
  return start(command, options, std::move(job), *placement, needs_checkpoint);
}

int run_launch(const LaunchOptions& options) {
  return run("launch", options, false, [](const JobSource& source) { return load_job(source); });
}

int run_resume(const LaunchOptions& options) {
  const std::vector<std::string>& files = options.job.files;
  return run("resume", options, true, [&files](const JobSource& source) -> Result<LoadedJob> {
    if (files.size() == 1 && is_run_dir(files.front())) return load_resumed_job(files.front(), source);
    LLMTRAIN_ASSIGN(job, load_job(source));
    // A job names its run directory; what the run was started with lies there.
    if (!is_run_dir(job.spec.run.dir))
      return Error{ErrorCode::kNoCheckpoint,
                   fmt::format("{} holds no run to resume", job.spec.run.dir),
                   "start it with `llmtrain launch`"};
    return job;
  });
}

void add_engine_option(CLI::App& command, LaunchOptions& options) {
  command.add_option(
      "--engine", options.engine, "Path of libllmtrain_engine_*.so (default: beside this program)");
}

}  // namespace

void add_launch(CLI::App& app, Runner& run) {
  auto options = std::make_shared<LaunchOptions>();
  auto* const command = app.add_subcommand(
      "launch",
      "Run a job, or go on with it. On several nodes, once on each of them; under Slurm no flag is needed\n"
      "Example: llmtrain launch job.yaml --nnodes 2 --node-rank 0 --rdzv-endpoint node0:29400\n"
      "Example: srun --nodes=2 --ntasks-per-node=1 llmtrain launch job.yaml");
  add_job_arguments(*command, options->job);
  add_placement_options(*command, options->placement, options->job);
  add_engine_option(*command, *options);
  command->callback([options, &run] { run = [options] { return run_launch(*options); }; });
}

void add_resume(CLI::App& app, Runner& run) {
  auto options = std::make_shared<LaunchOptions>();
  auto* const command = app.add_subcommand(
      "resume",
      "Go on from the newest verified checkpoint\nExample: llmtrain resume runs/mine --time-limit 4h");
  add_job_arguments(*command, options->job, "Run directory, or job file(s)");
  add_placement_options(*command, options->placement, options->job);
  add_engine_option(*command, *options);
  command->callback([options, &run] { run = [options] { return run_resume(*options); }; });
}

}  // namespace llmtrain::cli
