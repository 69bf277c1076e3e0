#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/subprocess.hpp"
#include "llmtrain/submit/submit_request.hpp"

#include "commands.hpp"
#include "job_arguments.hpp"

// `llmtrain submit JOB`: writes what a scheduler needs to run the job, and hands it over to Slurm.
namespace llmtrain::cli {
namespace {

const std::map<std::string, SubmitTarget> kTargets = {{"slurm", SubmitTarget::kSlurm},
                                                      {"kubernetes", SubmitTarget::kKubernetes},
                                                      {"volcano", SubmitTarget::kVolcano},
                                                      {"kubeflow", SubmitTarget::kKubeflow}};

struct SubmitOptions {
  JobArguments job;
  std::string target = "slurm";
  std::string output;
  std::string image;
  std::string claim;
  std::string mount = "/work";
  bool dry_run = false;
};

// What each node runs. Under Slurm it is this program on the same files; elsewhere the job travels with its
// --set.
std::vector<std::string> node_command(const SubmitOptions& options, bool carries_job) {
  std::vector<std::string> words;
  if (!carries_job) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    words = {error ? std::string("llmtrain") : self.string(), "launch"};
    words.insert(words.end(), options.job.files.begin(), options.job.files.end());
    for (const std::string& set : options.job.overrides) words.insert(words.end(), {"--set", set});
  }
  if (options.job.procs_per_node)
    words.insert(words.end(), {"--nproc-per-node", std::to_string(*options.job.procs_per_node)});
  return words;
}

// The longest save of an earlier start of this run, so that the notice before the end is long enough; 0
// without one.
double longest_save_s(const JobSpec& spec) {
  std::ifstream events(RunDir(spec.run.dir).events());
  double longest_ms = 0;
  for (std::string line; std::getline(events, line);) {
    if (line.find("checkpoint_saved") == std::string::npos) continue;
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("ms") || !event["ms"].is_number()) continue;
    longest_ms = std::max(longest_ms, event["ms"].get<double>());
  }
  return longest_ms / 1000;
}

Result<std::string> generate(const SubmitOptions& options) {
  const SubmitTarget target = kTargets.at(options.target);
  auto job = load_job(job_source(options.job, MissingData::kWarn));
  if (!job) return std::move(job).error();
  print_diagnostics(job->warnings);
  SubmitRequest request;
  request.command = node_command(options, target != SubmitTarget::kSlurm);
  request.job_text = std::move(job->source_yaml);
  request.spec = std::move(job->spec);
  request.save_s = longest_save_s(request.spec);
  std::error_code error;
  request.directory = std::filesystem::current_path(error).string();
  if (error) return Error{ErrorCode::kIo, "the current directory: " + error.message(), ""};
  request.image = options.image;
  request.claim = options.claim;
  request.mount = options.mount;
  return generate_submission(target, request);
}

// The first of PATH that is there; sbatch is asked by its full name.
std::string find_program(const std::map<std::string, std::string>& environment, const std::string& name) {
  const auto path = environment.find("PATH");
  std::string_view rest = path == environment.end() ? "/usr/bin:/bin" : std::string_view(path->second);
  for (;;) {
    const std::size_t colon = rest.find(':');
    const std::string candidate = join_path(rest.substr(0, colon), name);
    if (!rest.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) return "";
    rest.remove_prefix(colon + 1);
  }
}

Result<std::string> script_file(const std::string& script) {
  std::string path = "/tmp/llmtrain-submit-XXXXXX";
  const UniqueFd fd(::mkstemp(path.data()));
  if (fd.get() < 0) return Error{ErrorCode::kStorage, "no temporary file can be made in /tmp", ""};
  const auto files = make_posix_filesystem();
  LLMTRAIN_TRY(write_file_durably(*files, path, script));
  return path;
}

// Its output is a number; it is read until sbatch ends, and no longer than its deadline.
Result<std::string> run_sbatch(const std::string& sbatch, const std::string& script) {
  constexpr int kPatienceMs = 120'000;
  constexpr std::size_t kLongestAnswer = 4096;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Error{ErrorCode::kIo, "no pipe can be made", ""};
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  SpawnOptions spawn;
  spawn.executable = sbatch;
  spawn.arguments = {"sbatch", "--parsable", script};
  for (char** entry = environ; *entry != nullptr; ++entry) spawn.environment.emplace_back(*entry);
  spawn.stdout_fd = in.get();
  spawn.stderr_fd = STDERR_FILENO;
  LLMTRAIN_ASSIGN(child, Subprocess::spawn(spawn));
  in = UniqueFd();
  pollfd ended{child.pidfd(), POLLIN, 0};
  if (::poll(&ended, 1, kPatienceMs) != 1)
    return Error{
        ErrorCode::kTimeout, "sbatch has not answered in two minutes", "look with sinfo whether Slurm is up"};
  const auto end = child.reap();
  std::string answer(kLongestAnswer, '\0');
  const auto bytes = ::read(out.get(), answer.data(), answer.size());
  answer.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  if (!end || end->signaled || end->code != 0)
    return Error{ErrorCode::kUsage,
                 fmt::format("sbatch refused the script, exit code {}", end ? end->code : -1),
                 "its message stands above; look at the script with --dry-run"};
  return answer.substr(0, answer.find_first_of(";\n"));
}

Status hand_over(const std::string& script, const JobSource& source) {
  const std::string sbatch = find_program(source.env, "sbatch");
  if (sbatch.empty())
    return Error{ErrorCode::kNotFound,
                 "sbatch is not in PATH, so nothing can be submitted from this host",
                 "write the script with --output FILE and submit it where Slurm is"};
  LLMTRAIN_ASSIGN(path, script_file(script));
  auto job = run_sbatch(sbatch, path);
  ::unlink(path.c_str());
  if (!job) return std::move(job).error();
  fmt::print("{}\n", *job);
  return ok_status();
}

Status submit(const SubmitOptions& options) {
  const bool slurm = options.target == "slurm";
  LLMTRAIN_ASSIGN(text, generate(options));
  if (!options.output.empty()) {
    const auto files = make_posix_filesystem();
    LLMTRAIN_TRY(write_file_durably(*files, options.output, text));
  }
  if (options.dry_run || !slurm) {
    if (options.output.empty()) fmt::print("{}", text);
    return ok_status();
  }
  return hand_over(text, job_source(options.job, MissingData::kIgnore));
}

int run_submit(const SubmitOptions& options) {
  const Status status = submit(options);
  return status ? to_int(ExitCode::kDone) : report_error("submit", status.error());
}

void add_container_options(CLI::App& command, SubmitOptions& options) {
  command.add_option("--image", options.image, "Container image that holds llmtrain (all targets but Slurm)")
      ->type_name("IMAGE");
  command.add_option("--claim", options.claim, "Volume claim for the run directory, shared by the nodes")
      ->type_name("NAME");
  command
      .add_option(
          "--mount", options.mount, "Where the claim is mounted, and the working directory; default /work")
      ->type_name("DIR");
}

}  // namespace

void add_submit(CLI::App& app, Runner& run) {
  auto options = std::make_shared<SubmitOptions>();
  auto* const command = app.add_subcommand("submit",
                                           "Hand a job to Slurm, or print what Kubernetes needs to run it\n"
                                           "Example: llmtrain submit job.yaml --target slurm --dry-run\n"
                                           "Example: llmtrain submit job.yaml --target kubernetes --image "
                                           "registry/llmtrain:1 --claim runs | kubectl apply "
                                           "-f -");
  add_job_arguments(*command, options->job);
  add_nproc_option(*command, options->job);
  std::vector<std::string> names;
  for (const auto& [name, target] : kTargets) names.push_back(name);
  command->add_option("--target", options->target, "slurm (default), kubernetes, volcano or kubeflow")
      ->type_name("NAME")
      ->check(CLI::IsMember(names));
  command->add_flag("--dry-run", options->dry_run, "Print the script and submit nothing");
  command->add_option("--output", options->output, "Write it to this file too")->type_name("FILE");
  add_container_options(*command, *options);
  command->callback([options, &run] { run = [options] { return run_submit(*options); }; });
}

}  // namespace llmtrain::cli
