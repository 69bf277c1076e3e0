#include <algorithm>
#include <memory>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/prove_request.hpp"
#include "llmtrain/job/shrink_job.hpp"
#include "llmtrain/spec/write.hpp"

#include "commands.hpp"
#include "engine.hpp"
#include "job_arguments.hpp"

// `llmtrain prove JOB`: whether the job's layout computes what one rank computes. Never opens data files.
namespace llmtrain::cli {
namespace {

struct ProveOptions {
  JobArguments job;
  std::string engine;
  bool json = false;
};

// A rank of a shrunk job, with its buffers and its share of the collectives' memory.
constexpr std::int64_t kRankBytes = 64 << 20;

int ranks_for_this_host() {
  const std::int64_t free = std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return static_cast<int>(std::clamp<std::int64_t>(free / kRankBytes, 1, kProofRanks));
}

Result<ProveRequest> request_for(const ProveOptions& options, const LoadedJob& job) {
  LLMTRAIN_ASSIGN(small, shrink_job(job.spec, ranks_for_this_host()));
  return ProveRequest{
      .spec_yaml = to_yaml(to_tree(small)), .original_yaml = job.resolved_yaml, .json = options.json};
}

int run_prove(const ProveOptions& options) {
  JobSource source = job_source(options.job, MissingData::kWarn);
  source.cuda_available = true;  // a job for devices that are elsewhere is proved on the CPUs here
  const auto job = load_job(source);
  if (!job) return report_error("prove", job.error());
  print_diagnostics(job->warnings);
  const auto request = request_for(options, *job);
  if (!request) return report_error("prove", request.error());
  const auto path = find_engine(options.engine);
  if (!path) return report_error("prove", path.error());
  const auto engine = Engine::open(*path);
  if (!engine) return report_error("prove", engine.error());
  return engine->run("prove", to_json(*request));
}

}  // namespace

void add_prove(CLI::App& app, Runner& run) {
  auto options = std::make_shared<ProveOptions>();
  auto* const command = app.add_subcommand(
      "prove",
      "Show that a job's layout computes what one rank computes, on a small copy of the job in fp64\n"
      "Example: llmtrain prove configs/cpu_tp2_dp2.yaml");
  add_job_arguments(*command, options->job);
  add_nproc_option(*command, options->job);
  command->add_option(
      "--engine", options->engine, "Path of libllmtrain_engine_cpu.so (default: beside this program)");
  command->add_flag("--json", options->json, "Print the certificate as one JSON object");
  command->callback([options, &run] { run = [options] { return run_prove(*options); }; });
}

}  // namespace llmtrain::cli
