#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "llmtrain/spec/enum_names.hpp"
#include "llmtrain/spec/fields.hpp"
#include "llmtrain/spec/scalars.hpp"

#include "rules.hpp"

// How a job is launched, and what follows when it fails.
namespace llmtrain {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_variable_name(const std::string& text) {
  return !text.empty() && text.size() <= 256 && (is_letter(text[0]) || text[0] == '_') &&
         std::all_of(
             text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

// One word of a command line that needs no quoting in any shell.
bool is_plain_word(const std::string& text) {
  constexpr std::string_view kOthers = "_-./:,=@+%&|[]*~^";
  return !text.empty() && text.size() <= 1024 && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || kOthers.find(c) != std::string_view::npos;
  });
}

void check_environment(Rules& rules) {
  for (const auto& [name, value] : rules.spec.launch.env)
    if (!is_variable_name(name))
      rules.error(
          "launch.env",
          fmt::format("\"{}\" is no name of an environment variable; allowed: letters, digits and _", name));
}

void check_rendezvous(Rules& rules) {
  const LaunchSpec& launch = rules.spec.launch;
  if (!launch.rdzv_endpoint.empty()) {
    const std::string& endpoint = launch.rdzv_endpoint;
    const std::size_t colon = endpoint.rfind(':');
    std::int32_t port = 0;
    const bool readable = colon != std::string::npos && colon > 0 && is_plain_word(endpoint) &&
                          parse_scalar(endpoint.substr(colon + 1), port) == ScalarFault::kNone && port >= 1 &&
                          port <= 65535;
    if (!readable)
      rules.error("launch.rdzv_endpoint",
                  fmt::format("= {}: allowed: HOST:PORT with a port from 1 to 65535, or empty",
                              endpoint.substr(0, 60)));
  }
  if (!launch.rdzv_id.empty() && (!is_plain_word(launch.rdzv_id) || launch.rdzv_id.size() > 128))
    rules.error("launch.rdzv_id",
                fmt::format("= \"{}\": allowed: up to 128 letters, digits and signs like - _ . :",
                            launch.rdzv_id.substr(0, 60)));
}

void check_stop_signals(Rules& rules) {
  const std::vector<StopSignal>& signals = rules.spec.launch.stop_signals;
  if (signals.empty())
    rules.error("launch.stop_signals",
                "= []: no signal would stop the job in order, and a scheduler would lose its last steps; "
                "allowed: at least one");
  for (std::size_t i = 0; i < signals.size(); ++i)
    if (std::find(signals.begin(), signals.begin() + static_cast<std::ptrdiff_t>(i), signals[i]) !=
        signals.begin() + static_cast<std::ptrdiff_t>(i))
      rules.error("launch.stop_signals", fmt::format("[{}] = {}: named twice", i, name_of(signals[i])));
}

// [D-]H:M[:S], M[:S], or UNLIMITED, as in sbatch(1).
bool is_slurm_time(const std::string& text) {
  if (text == "UNLIMITED" || text == "infinite") return true;
  const std::string clock = text.substr(text.find('-') == std::string::npos ? 0 : text.find('-') + 1);
  const bool digits =
      std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == ':' || c == '-'; });
  return digits && text.size() <= 20 && is_digit(text.front()) && is_digit(text.back()) &&
         std::count(text.begin(), text.end(), '-') <= 1 && std::count(clock.begin(), clock.end(), ':') <= 2 &&
         clock.find("::") == std::string::npos && !clock.empty() && is_digit(clock.front());
}

// [B:|R:]NAME[@SECONDS]: only signals to which an agent listens.
bool is_slurm_signal(const Rules& rules, std::string text) {
  while (text.starts_with("B:") || text.starts_with("R:")) text = text.substr(2);
  const std::size_t at = text.find('@');
  std::int32_t seconds = 0;
  const bool timed =
      at == std::string::npos ||
      (parse_scalar(text.substr(at + 1), seconds) == ScalarFault::kNone && seconds >= 0 && seconds <= 65535);
  const auto& signals = rules.spec.launch.stop_signals;
  return timed && std::any_of(signals.begin(), signals.end(), [&](StopSignal signal) {
           return text.substr(0, at) == name_of(signal);
         });
}

void check_slurm(Rules& rules) {
  const SlurmSpec& slurm = rules.spec.launch.slurm;
  const auto word = [&](const char* name, const std::string& value) {
    if (!value.empty() && !is_plain_word(value))
      rules.error(fmt::format("launch.slurm.{}", name),
                  fmt::format("= \"{}\": it becomes a word of a script; allowed: letters, digits and signs "
                              "without quotes, spaces or $",
                              value.substr(0, 60)));
  };
  word("partition", slurm.partition);
  word("account", slurm.account);
  word("qos", slurm.qos);
  word("constraint", slurm.constraint);
  word("container", slurm.container);
  for (const std::string& node : slurm.exclude) word("exclude", node);
  for (const std::string& option : slurm.extra) {
    word("extra", option);
    if (!option.starts_with("-"))
      rules.error("launch.slurm.extra",
                  fmt::format("= \"{}\": allowed: options of sbatch, such as --mem=0", option.substr(0, 60)));
  }
  if (!slurm.time.empty() && !is_slurm_time(slurm.time))
    rules.error("launch.slurm.time",
                fmt::format("= {}: allowed: minutes, H:M:S, D-H or D-H:M:S", slurm.time.substr(0, 60)));
  if (!slurm.signal.empty() && rules.usable({"launch.stop_signals"}) && !is_slurm_signal(rules, slurm.signal))
    rules.error("launch.slurm.signal",
                fmt::format("= {}: allowed: one of launch.stop_signals and the seconds ahead of the limit, "
                            "such as USR1@120",
                            slurm.signal.substr(0, 60)));
  if (slurm.chain == SlurmChain::kNone && rules.given("launch.slurm.max_chain"))
    rules.warning("launch.slurm.max_chain", "has no effect: launch.slurm.chain is none");
  if (slurm.chain == SlurmChain::kArray && slurm.requeue && rules.given("launch.slurm.requeue"))
    rules.warning("launch.slurm.requeue",
                  "with chain = array a stopped task is requeued, and the next one follows it as well");
}

}  // namespace

void check_launch(Rules& rules) {
  check_environment(rules);
  check_rendezvous(rules);
  check_stop_signals(rules);
  check_slurm(rules);
  if (rules.spec.launch.log.max_bytes == 0 && rules.given("launch.log.keep"))
    rules.warning("launch.log.keep", "has no effect: launch.log.max_bytes is 0, so no file is rotated");
  constexpr std::int64_t kSmallestLog = 4096;
  const std::int64_t max_bytes = rules.spec.launch.log.max_bytes;
  if (max_bytes > 0 && max_bytes < kSmallestLog)
    rules.error("launch.log.max_bytes",
                fmt::format("= {}: the end of a log that explains a failure would not fit; allowed: 0, or at "
                            "least {}",
                            max_bytes,
                            kSmallestLog));
}

void check_resilience(Rules& rules) {
  const ResilienceSpec& resilience = rules.spec.resilience;
  const NodeCount& nodes = rules.spec.launch.nodes;
  visit_fields(resilience.on_failure, [&](const FieldInfo& info, const FailureAction& action) {
    if (action != FailureAction::kRestartExcludingNode) return;
    const std::string path = fmt::format("resilience.on_failure.{}", info.name);
    if (&action == &resilience.on_failure.data || &action == &resilience.on_failure.divergence)
      rules.error(
          path,
          "= restart_excluding_node: every node has the same data and weights, so no node is to blame; "
          "allowed: restart, stop");
    else if (rules.usable({"launch.nodes"}) && nodes.max == 1)
      rules.error(path,
                  "= restart_excluding_node: launch.nodes is 1, and nothing would be left; allowed: restart, "
                  "stop, or more nodes");
  });
  if (resilience.elastic && rules.usable({"launch.nodes"}) && !nodes.is_range())
    rules.warning("resilience.elastic",
                  fmt::format("has no effect: launch.nodes = {} says neither how few nodes will do nor how "
                              "many; allowed: MIN:MAX",
                              to_string(nodes)));
  if (resilience.max_restarts == 0 && rules.given("resilience.restart_window_s"))
    rules.warning("resilience.restart_window_s", "has no effect: resilience.max_restarts is 0");
  if (resilience.hang_factor == 0 && rules.given("resilience.hang_min_s"))
    rules.warning("resilience.hang_min_s", "has no effect: resilience.hang_factor is 0");
  if (!rules.spec.monitoring.trace_collectives && rules.given("resilience.straggler_share"))
    rules.warning("resilience.straggler_share", "has no effect: monitoring.trace_collectives is false");
  if (resilience.hang_factor > 0 && resilience.hang_factor < 1)
    rules.error("resilience.hang_factor",
                fmt::format("= {}: every step would be a hang; allowed: 0, or at least 1",
                            format_number(resilience.hang_factor)));
}

}  // namespace llmtrain
