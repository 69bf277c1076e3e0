#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/doctor/judge.hpp"
#include "llmtrain/doctor/read_host.hpp"

#include "commands.hpp"
#include "engine.hpp"
#include "job_arguments.hpp"

// `llmtrain doctor [JOB]`: can this host run jobs, and this one? Changes nothing. 0, or 64 with the reasons.
namespace llmtrain::cli {
namespace {

struct DoctorOptions {
  JobArguments job;
  std::string engine;
  bool json = false;
};

std::vector<EngineFacts> engines_for(const DoctorOptions& options, const std::optional<JobNeeds>& job) {
  std::vector<EngineFacts> engines;
  const std::string wanted = job && job->cuda ? "cuda" : "cpu";
  for (const std::string device : {"cpu", "cuda"}) {
    if (!options.engine.empty() && device != wanted) continue;
    const auto path = find_engine(options.engine, device);
    engines.push_back({device, path ? *path : "", path ? "" : path.error().message});
  }
  return engines;
}

int run_doctor(const DoctorOptions& options) {
  std::optional<JobNeeds> job;
  if (!options.job.files.empty()) {
    const auto loaded = load_job(job_source(options.job, MissingData::kWarn));
    if (!loaded) return report_error("doctor", loaded.error());
    print_diagnostics(loaded->warnings);
    job = needs_of(loaded->spec);
  }
  const HostFacts facts = read_host(engines_for(options, job), job ? job->run_dir : "");
  const std::vector<Check> checks = judge(facts, job);
  fmt::print("{}", options.json ? doctor_json(facts, checks) : doctor_text(facts, checks));
  for (const Check& check : checks)
    if (check.health == Health::kFailed)
      fmt::print(stderr, "llmtrain doctor: {}: {}; {}\n", check.name, check.found, check.advice);
  return to_int(healthy(checks) ? ExitCode::kDone : ExitCode::kPreflight);
}

}  // namespace

void add_doctor(CLI::App& app, Runner& run) {
  auto options = std::make_shared<DoctorOptions>();
  auto* const command =
      app.add_subcommand("doctor", "Check what this host can do, and whether a job can run on it");
  command->add_option("job", options->job.files, "Job file; several merge left to right")->type_name("JOB");
  add_set_option(*command, options->job);
  add_nproc_option(*command, options->job);
  command->add_option(
      "--engine", options->engine, "Path of libllmtrain_engine_*.so (default: beside this program)");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example: llmtrain doctor configs/quickstart.yaml");
  command->callback([options, &run] { run = [options] { return run_doctor(*options); }; });
}

}  // namespace llmtrain::cli
