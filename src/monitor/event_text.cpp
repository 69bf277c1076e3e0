#include "llmtrain/monitor/event_text.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

namespace llmtrain {
namespace {

// Three significant digits of a number below 1000.
std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string scaled(double value, const std::array<const char*, 5>& units) {
  std::size_t unit = 0;
  for (; unit + 1 < units.size() && value >= 999.5; ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : three_digits(value) + units[unit];
}

bool known(const std::optional<double>& value) {
  return value && std::isfinite(*value);
}

std::string number(const std::optional<double>& value, int decimals) {
  return known(value) ? fmt::format("{:.{}f}", *value, decimals) : "null";
}

// Two decimals, and an exponent where they would show nothing.
std::string norm(const std::optional<double>& value) {
  if (!known(value)) return "null";
  const double size = std::abs(*value);
  return (size == 0 || size >= 0.095) && size < 1e6 ? fmt::format("{:.2f}", *value) : short_exponent(*value);
}

std::string milliseconds(const std::optional<double>& value) {
  return known(value) && *value < 9.95 ? number(value, 2) : number(value, 0);
}

// Control characters would let a message move the cursor or forge a line.
std::string printable(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  return text;
}

std::string who(int rank) {
  return rank < 0 ? "" : fmt::format("rank {}: ", rank);
}

std::string line_of(const StepReport& e) {
  return step_line(e);
}
std::string line_of(const RunStarted& e) {
  return fmt::format("run {}: {} ranks ({}), {} parameters, {} compute threads, {}; {} of {} steps are done",
                     e.run,
                     e.world_size,
                     e.layout,
                     short_count(e.parameters),
                     e.compute_threads,
                     e.cpu,
                     e.first_step,
                     e.total_steps);
}
std::string line_of(const EvalReport& e) {
  return fmt::format("eval step={} loss={:.4f} perplexity={:.2f} tokens={}",
                     e.step,
                     e.loss,
                     std::exp(e.loss),
                     short_count(e.tokens));
}
std::string line_of(const CheckpointSaved& e) {
  return fmt::format(
      "checkpoint step={} saved: {}, {} in {:.2f} s", e.step, e.path, short_bytes(e.bytes), e.ms / 1000);
}
std::string line_of(const CheckpointLoaded& e) {
  return fmt::format("checkpoint step={} loaded: {} in {:.2f} s", e.step, e.path, e.ms / 1000);
}
std::string line_of(const CheckpointRejected& e) {
  return fmt::format("checkpoint passed over: {}: {}", e.path, e.reason);
}
std::string line_of(const WorkerExited& e) {
  return fmt::format("rank {} (pid {}) ended: {}; its last finished step was {}{}",
                     e.rank,
                     e.pid,
                     e.cause,
                     e.step,
                     e.phase.empty() ? "" : ", it was in " + e.phase);
}
std::string line_of(const Restarted& e) {
  return fmt::format("restart {} of at most {}: {}", e.restarts, e.max_restarts, e.reason);
}
std::string line_of(const StragglerFound& e) {
  return fmt::format(
      "straggler: {}: {} takes {:.0f} ms a step and {:.0f} ms on its peers, so that all wait for it "
      "{:.0f} % of a step of {:.0f} ms",
      straggler_name(e.ranks, e.node, e.host),
      e.cause,
      e.ms,
      e.peers_ms,
      e.step_ms > 0 ? 100 * (e.ms - e.peers_ms) / e.step_ms : 0,
      e.step_ms);
}
std::string line_of(const StragglerOver& e) {
  return fmt::format(
      "{} keeps up again ({}), seen at step {}", straggler_name(e.ranks, e.node, e.host), e.cause, e.step);
}
std::string line_of(const StopRequested& e) {
  return fmt::format("{}: stopping after this step with a checkpoint; once more stops at once", e.signal);
}
std::string line_of(const RunFinished& e) {
  return fmt::format("finished at step {}: {} (exit code {})", e.step, e.reason, e.code);
}
std::string line_of(const CommTotals& e) {
  return fmt::format("rank {} {} {}: {} calls, {}, {:.1f} ms exposed",
                     e.rank,
                     e.axis,
                     e.op,
                     e.count,
                     short_bytes(e.bytes),
                     e.exposed_ms);
}
std::string line_of(const MemoryReport& e) {
  return fmt::format("rank {} memory: parameters {}, gradients {}, optimizer {}{}, activations at most {}",
                     e.rank,
                     short_bytes(e.params),
                     short_bytes(e.grads),
                     short_bytes(e.optimizer + e.host_optimizer),
                     e.host_optimizer > 0 ? " in host memory" : "",
                     short_bytes(e.activations_peak));
}
std::string line_of(const PhaseTotals& e) {
  return fmt::format(
      "rank {} time: forward {:.0f} ms, backward {:.0f}, optimizer {:.0f}, evaluation {:.0f}, saves {:.0f}; "
      "waiting "
      "for data {:.0f}, for a stage {:.0f}, for gradients {:.0f}",
      e.rank,
      e.forward_ms,
      e.backward_ms,
      e.optimizer_ms,
      e.evaluate_ms,
      e.save_ms,
      e.data_wait_ms,
      e.stage_wait_ms,
      e.reduce_ms);
}
std::string line_of(const Note& e) {
  if (e.output) return who(e.rank) + e.text;  // it says by its own words what it is
  const char* prefix = e.severity == Severity::kError     ? "error: "
                       : e.severity == Severity::kWarning ? "warning: "
                                                          : "";
  return fmt::format("{}{}{}", prefix, who(e.rank), e.text);
}

}  // namespace

std::string short_count(std::int64_t n) {
  const double size = std::abs(static_cast<double>(n));
  const std::string text = scaled(size, {"", "K", "M", "B", "T"});
  return n < 0 ? "-" + text : text;
}

std::string short_bytes(std::int64_t bytes) {
  return scaled(static_cast<double>(bytes), {" B", " kB", " MB", " GB", " TB"});
}

std::string short_exponent(double value) {
  if (!std::isfinite(value)) return "null";
  if (value == 0) return "0";
  const std::string text = fmt::format("{:.2e}", value);  // 2.40e-04
  std::string mantissa = text.substr(0, text.find('e'));
  while (mantissa.back() == '0') mantissa.pop_back();
  if (mantissa.back() == '.') mantissa.pop_back();
  return fmt::format("{}e{}", mantissa, std::stoi(text.substr(text.find('e') + 1)));
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s % 3600 / 60);
  return fmt::format("{}d{:02}h", s / 86400, s % 86400 / 3600);
}

std::string straggler_name(const std::string& ranks, int node, const std::string& host) {
  return fmt::format("{} {} on node {}{}",
                     ranks.find(',') == std::string::npos ? "rank" : "ranks",
                     ranks,
                     node,
                     host.empty() ? "" : fmt::format(" ({})", host));
}

std::string step_line(const StepReport& r) {
  return fmt::format("step={} loss={} grad_norm={} lr={} tokens={} tok_s={} step_ms={} mfu={} mem_gb={}",
                     r.step,
                     number(r.loss, 4),
                     norm(r.grad_norm),
                     short_exponent(r.lr),
                     short_count(r.tokens),
                     number(r.tok_s, 0),
                     milliseconds(r.step_ms),
                     number(r.mfu, 2),
                     number(r.mem_gb, 1));
}

std::string event_line(const Event& event) {
  return printable(std::visit([](const auto& body) { return line_of(body); }, event.body));
}

}  // namespace llmtrain
