#include <algorithm>
#include <memory>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/plants.hpp"
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
  std::string plant;
  bool list_plants = false;
  bool json = false;
};

// A rank of a shrunk job, with its buffers and its share of the collectives' memory.
constexpr std::int64_t kRankBytes = 64 << 20;

int ranks_for_this_host() {
  const std::int64_t free = std::int64_t{sysconf(_SC_AVPHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return static_cast<int>(std::clamp<std::int64_t>(free / kRankBytes, 1, kProofRanks));
}

int list_plants(bool json) {
  std::size_t width = 0;
  for (const PlantEntry& entry : plants()) width = std::max(width, entry.name.size());
  YamlNode list = list_node();
  for (const PlantEntry& entry : plants()) {
    if (!json) fmt::print("{:<{}}  {}\n", entry.name, width, entry.text);
    YamlNode node = map_node();
    put(node, "name", scalar_node(std::string(entry.name), true));
    put(node, "text", scalar_node(std::string(entry.text), true));
    list.items.push_back(std::move(node));
  }
  if (json) fmt::print("{}", to_json(list));
  return to_int(ExitCode::kDone);
}

// A bug that has no room in the job would prove nothing by not being found: the copy gets what it lacks.
Result<LoadedJob> job_with_room(JobSource source, const std::string& plant) {
  LLMTRAIN_ASSIGN(job, load_job(source));
  if (plant.empty()) return job;
  LLMTRAIN_ASSIGN(entry, find_plant(plant));
  const std::vector<std::string> room = entry.room(job.spec);
  if (room.empty()) return job;
  fmt::print(stderr,
             "llmtrain prove: the job has no room for {}; its copy has, with --set {}\n",
             plant,
             fmt::join(room, " --set "));
  source.procs_per_node.reset();
  source.overrides.insert(source.overrides.end(), room.begin(), room.end());
  return load_job(source);
}

Result<ProveRequest> request_for(const ProveOptions& options, const LoadedJob& job) {
  LLMTRAIN_ASSIGN(small, shrink_job(job.spec, ranks_for_this_host()));
  return ProveRequest{.spec_yaml = to_yaml(to_tree(small)),
                      .original_yaml = job.resolved_yaml,
                      .plant = options.plant,
                      .json = options.json};
}

int run_prove(const ProveOptions& options) {
  if (options.list_plants) return list_plants(options.json);
  if (options.job.files.empty())
    return report_error("prove",
                        {ErrorCode::kUsage, "no JOB given", "`llmtrain prove --help` has an example"});
  JobSource source = job_source(options.job, MissingData::kWarn);
  source.cuda_available = true;  // a job for devices that are elsewhere is proved on the CPUs here
  const auto job = job_with_room(source, options.plant);
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
  command->get_option("job")->required(false);  // --list-plants needs none
  add_nproc_option(*command, options->job);
  command->add_option(
      "--engine", options->engine, "Path of libllmtrain_engine_cpu.so (default: beside this program)");
  command->add_option("--plant", options->plant, "Plant this bug; the proof must then fail")
      ->type_name("NAME");
  command->add_flag("--list-plants", options->list_plants, "Print the bugs that can be planted");
  command->add_flag("--json", options->json, "Print the certificate as one JSON object");
  command->callback([options, &run] { run = [options] { return run_prove(*options); }; });
}

}  // namespace llmtrain::cli
