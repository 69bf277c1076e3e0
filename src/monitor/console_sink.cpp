#include "llmtrain/monitor/console_sink.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/monitor/event_text.hpp"

namespace llmtrain {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr std::string_view kEraseLine = "\r\x1b[2K";

bool known(const std::optional<double>& value) {
  return value && std::abs(*value) < 1e18;
}

Severity severity_of(const EventBody& body) {
  if (const auto* note = std::get_if<Note>(&body)) return note->severity;
  if (std::holds_alternative<WorkerExited>(body) || std::holds_alternative<Restarted>(body) ||
      std::holds_alternative<CheckpointRejected>(body) || std::holds_alternative<StragglerFound>(body))
    return Severity::kWarning;
  if (const auto* finished = std::get_if<RunFinished>(&body))
    return finished->code == 0 ? Severity::kInfo : Severity::kWarning;
  return Severity::kInfo;
}

std::string coloured(const std::string& line, Severity severity) {
  if (severity == Severity::kInfo) return line;
  return fmt::format("\x1b[{}m{}\x1b[0m", severity == Severity::kError ? 31 : 33, line);
}

}  // namespace

ConsoleSink::~ConsoleSink() {
  if (!drawn_.empty()) write_("\n");
}

void ConsoleSink::on(const Event& event) {
  progress_.on(event);
  if (const auto* report = std::get_if<StepReport>(&event.body)) return on_step(event, *report);
  if (std::holds_alternative<CommTotals>(event.body) || std::holds_alternative<MemoryReport>(event.body) ||
      std::holds_alternative<PhaseTotals>(event.body))
    return;
  if (std::holds_alternative<RunStarted>(event.body)) first_step_ = true;
  print(event_line(event), severity_of(event.body));
  if (std::holds_alternative<RunFinished>(event.body) && !drawn_.empty()) {
    write_("\n");
    drawn_.clear();
  }
}

void ConsoleSink::on_step(const Event& event, const StepReport& report) {
  if (report.skipped > skipped_)
    print(fmt::format("warning: step {} was skipped, its loss or gradient was not finite ({} so far)",
                      report.step,
                      report.skipped),
          Severity::kWarning);
  skipped_ = report.skipped;
  const bool last = report.step == progress_.total_steps();
  if (options_.terminal) {
    if (first_step_ || last || std::abs(event.time - drawn_at_) >= kRedrawSeconds) {
      draw(report);
      drawn_at_ = event.time;
    }
  } else if (first_step_ || last || report.step % std::max<std::int64_t>(options_.log_interval, 1) == 0) {
    write_(event_line(event) + "\n");
  }
  first_step_ = false;
}

// On a terminal a line takes the bar's place and the bar moves down.
void ConsoleSink::print(const std::string& line, Severity severity) {
  if (!options_.terminal) return write_(line + "\n");
  std::string text;
  if (!drawn_.empty()) text += kEraseLine;
  text += coloured(line, severity) + "\n" + drawn_;
  write_(text);
}

void ConsoleSink::draw(const StepReport& report) {
  drawn_ = bar(report);
  write_(std::string(kEraseLine) + drawn_);
}

std::string ConsoleSink::bar(const StepReport& report) const {
  const int columns = std::max(options_.width ? options_.width() : 80, 20);
  const auto left = progress_.seconds_left();
  const std::string numbers =
      fmt::format("step {}/{} loss {} tok/s {} mfu {} left {}",
                  report.step,
                  progress_.total_steps(),
                  known(report.loss) ? fmt::format("{:.4f}", *report.loss) : "-",
                  known(report.tok_s) ? short_count(std::llround(*report.tok_s)) : "-",
                  known(report.mfu) ? fmt::format("{:.2f}", *report.mfu) : "-",
                  left ? short_duration(*left) : "-");
  const int room = columns - 1 - static_cast<int>(numbers.size());  // the last column stays free: no wrapping
  std::string text;
  if (room >= 16) {
    const int cells = std::min(room - 8, 40);
    const int full = static_cast<int>(progress_.fraction() * cells);
    text = fmt::format("[{}{}] {:3.0f}% ",
                       std::string(static_cast<std::size_t>(full), '='),
                       std::string(static_cast<std::size_t>(cells - full), ' '),
                       std::floor(progress_.fraction() * 100));
  }
  return (text + numbers).substr(0, static_cast<std::size_t>(columns - 1));
}

ConsoleOptions console_options(int fd, std::int64_t log_interval) {
  ConsoleOptions options;
  options.terminal = ::isatty(fd) == 1;
  options.log_interval = log_interval;
  options.width = [fd] {
    winsize size{};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? static_cast<int>(size.ws_col) : 80;
  };
  return options;
}

ConsoleSink::Write write_to(int fd) {
  return [fd](std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(fd, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(written));
    }
  };
}

}  // namespace llmtrain
