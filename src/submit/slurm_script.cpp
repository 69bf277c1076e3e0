#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/submit/quoting.hpp"
#include "llmtrain/submit/submit_request.hpp"

#include "slurm_shell.hpp"

// The head of the script (what the allocation must be) and what is put into the shell text of
// slurm_shell.hpp.
namespace llmtrain {
namespace {

constexpr double kShortestNotice = 120;

Error refuse(const char* field, std::string_view value, const char* allowed) {
  return {ErrorCode::kInvalidSpec,
          fmt::format("launch.slurm.{} = \"{}\": not usable in a script of sbatch; allowed: {}",
                      field,
                      yaml_quoted(value.substr(0, 100)),
                      allowed),
          ""};
}

// Lines `#SBATCH --name=value`; the first value that would leave its line is kept as the error.
class Directives {
 public:
  void add(const char* option, std::string_view value, const char* field) {
    if (value.empty()) return;
    if (!is_printable(value) && !error_) error_ = refuse(field, value, "printable text");
    text_ += fmt::format("#SBATCH --{}={}\n", option, sbatch_quoted(value));
  }
  void add(const char* option, std::optional<int> value) {
    if (value) text_ += fmt::format("#SBATCH --{}={}\n", option, *value);
  }
  void flag(const char* option, bool set = true) {
    if (set) text_ += fmt::format("#SBATCH --{}\n", option);
  }
  void line(std::string_view option) {
    const bool one = option.starts_with("-") && is_printable(option);
    if (!one && !error_) error_ = refuse("extra", option, "options of sbatch, such as --mem=0");
    text_ += fmt::format("#SBATCH {}\n", option);
  }
  Result<std::string> text() const {
    if (error_) return *error_;
    return text_;
  }

 private:
  std::string text_;
  std::optional<Error> error_;
};

struct Notice {
  std::string signal;
  int seconds = 0;
};

constexpr std::string_view name_of(StopSignal signal) {
  switch (signal) {
    case StopSignal::kTerm: return "TERM";
    case StopSignal::kInt: return "INT";
    case StopSignal::kHup: return "HUP";
    case StopSignal::kUsr1: return "USR1";
    case StopSignal::kUsr2: return "USR2";
  }
  return "TERM";
}

// "USR1@120": to the batch shell, and no later than two saves before the end.
Result<Notice> notice_of(const SubmitRequest& request) {
  const LaunchSpec& launch = request.spec.launch;
  const char* const allowed = "SIGNAL@SECONDS, for example USR1@300";
  std::string_view text = launch.slurm.signal;
  if (text.starts_with("B:")) text.remove_prefix(2);
  const std::size_t at = text.find('@');
  Notice notice{std::string(text.substr(0, at)), static_cast<int>(kShortestNotice)};
  if (at != std::string_view::npos) {
    const std::string_view digits = text.substr(at + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), notice.seconds);
    if (error != std::errc() || end != digits.data() + digits.size() || notice.seconds < 1 ||
        notice.seconds > 65'535)
      return refuse("signal", launch.slurm.signal, allowed);
  }
  const auto& stops = launch.stop_signals;
  if (std::none_of(
          stops.begin(), stops.end(), [&](StopSignal stop) { return name_of(stop) == notice.signal; }))
    return refuse("signal", launch.slurm.signal, "a signal of launch.stop_signals, with @SECONDS behind it");
  notice.seconds =
      std::max(notice.seconds, static_cast<int>(std::ceil(std::min(2 * request.save_s, 65'535.0))));
  return notice;
}

// Slurm's patterns of file names and its listings take few characters well.
std::string file_name(std::string_view name) {
  std::string result;
  for (const char c : name.substr(0, 100)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    result += plain ? c : '_';
  }
  return result;
}

std::optional<int> gpus(const JobSpec& spec) {
  if (spec.launch.slurm.gpus_per_node) return spec.launch.slurm.gpus_per_node;
  return spec.run.device == Device::kCuda ? spec.launch.procs_per_node : std::nullopt;
}

std::string nodes_text(const NodeCount& nodes) {
  return nodes.is_range() ? fmt::format("{}-{}", nodes.min, nodes.max) : std::to_string(nodes.min);
}

Result<std::string> directives(const SubmitRequest& request, const Notice& notice) {
  const SlurmSpec& slurm = request.spec.launch.slurm;
  const bool array = slurm.chain == SlurmChain::kArray;
  const std::string name = file_name(request.spec.run.name);
  Directives lines;
  lines.add("job-name", name, "");
  lines.add("partition", slurm.partition, "partition");
  lines.add("account", slurm.account, "account");
  lines.add("qos", slurm.qos, "qos");
  lines.add("nodes", nodes_text(request.spec.launch.nodes), "");
  lines.add("ntasks-per-node", 1);
  lines.add("gpus-per-node", gpus(request.spec));
  lines.add("cpus-per-task", slurm.cpus_per_task);
  lines.add("time", slurm.time, "time");
  lines.add("signal", fmt::format("B:{}@{}", notice.signal, notice.seconds), "");
  lines.flag(slurm.requeue && slurm.chain == SlurmChain::kNone ? "requeue" : "no-requeue");
  lines.add("open-mode", "append", "");
  lines.flag("no-kill");
  lines.flag("exclusive", slurm.exclusive);
  lines.add("constraint", slurm.constraint, "constraint");
  lines.add("exclude", fmt::format("{}", fmt::join(slurm.exclude, ",")), "exclude");
  if (array) lines.line(fmt::format("--array=1-{}%1", slurm.max_chain));
  lines.add("output", fmt::format("{}-{}.log", name, array ? "%A_%a" : "%j"), "");
  lines.add("chdir", request.directory, "chdir");
  for (const std::string& option : slurm.extra) lines.line(option);
  return lines.text();
}

std::vector<std::string> srun_words(const SubmitRequest& request) {
  const SlurmSpec& slurm = request.spec.launch.slurm;
  std::vector<std::string> words = {"srun", "--kill-on-bad-exit=0", "--ntasks-per-node=1", "--input=none"};
  // Since Slurm 22.05 steps do not inherit this one; without it an agent and its workers share what one task
  // gets.
  if (slurm.cpus_per_task) words.push_back(fmt::format("--cpus-per-task={}", *slurm.cpus_per_task));
  if (!slurm.container.empty()) {
    words.push_back("--container-image=" + slurm.container);
    words.push_back(fmt::format("--container-mounts={0}:{0}", request.directory));
    words.push_back("--container-workdir=" + request.directory);
  }
  return words;
}

std::string_view chain_shell(const SlurmSpec& slurm) {
  switch (slurm.chain) {
    case SlurmChain::kNone: return slurm.requeue ? kRequeueShell : kOnceShell;
    case SlurmChain::kDependency: return kDependencyShell;
    case SlurmChain::kArray: return kArrayShell;
  }
  return kOnceShell;
}

}  // namespace

Result<std::string> slurm_script(const SubmitRequest& request) {
  const SlurmSpec& slurm = request.spec.launch.slurm;
  for (const std::string& text : {request.directory, slurm.container, request.spec.run.dir})
    if (!is_printable(text)) return refuse("container", text, "printable text, in paths too");
  for (const std::string& node : slurm.exclude)
    if (node.empty()) return refuse("exclude", node, "names of nodes");
  LLMTRAIN_ASSIGN(notice, notice_of(request));
  LLMTRAIN_ASSIGN(head, directives(request, notice));
  std::string script = "#!/bin/bash\n# Written by `llmtrain submit --target slurm`.\n";
  script += head;
  script += fmt::format("\nset -u\nrun_dir={}\nmax_chain={}\nexclude={}\nnotice={}\n",
                        shell_quoted(request.spec.run.dir),
                        slurm.max_chain,
                        shell_quoted(fmt::format("{}", fmt::join(slurm.exclude, ","))),
                        notice.signal);
  script += fmt::format(
      "start=({})\nlaunch=({})\n", shell_words(srun_words(request)), shell_words(request.command));
  script += kCommonShell;
  script += chain_shell(slurm);
  script += kMainShell;
  return script;
}

}  // namespace llmtrain
