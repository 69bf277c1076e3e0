#include "llmtrain/report/report_text.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/monitor/event_text.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMostRows = 40;  // of a table on a terminal; the newest are shown

std::string bar(double share) {
  const auto cells = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 40));
  return std::string(static_cast<std::size_t>(cells), '#');
}

std::string ledger_text(const RunHistory& history) {
  const double wall = history.ledger.wall();
  std::string text = fmt::format("\nWhere {} of wall time went\n", seconds_label(wall));
  for (std::size_t i = 0; i < kNumTimeClasses; ++i) {
    const double seconds = history.ledger.seconds[i];
    if (seconds <= 0) continue;
    const double share = wall > 0 ? seconds / wall : 0;
    text += plain(fmt::format("  {:<24} {:>10} {:>6.1f} %  {}",
                              description(static_cast<TimeClass>(i)),
                              seconds_label(seconds),
                              100 * share,
                              bar(share)));
    while (text.back() == ' ') text.pop_back();
    text += '\n';
  }
  text += fmt::format("  effective training time {:.1f} %: {} steps that count in {}; {} steps were lost\n",
                      100 * history.ledger.effective_ratio(),
                      history.ledger.productive_steps,
                      seconds_label(history.ledger.of(TimeClass::kProductive)),
                      history.ledger.replayed_steps);
  return text;
}

std::string step_or_dash(std::int64_t step) {
  return step < 0 ? "-" : std::to_string(step);
}

template <class Item, class Print>
std::string newest_rows(const std::vector<Item>& items, Print&& print) {
  std::string text;
  const std::size_t skipped = items.size() > kMostRows ? items.size() - kMostRows : 0;
  if (skipped > 0) text += fmt::format("  ... {} older ones are left out here; --json has them\n", skipped);
  for (std::size_t i = skipped; i < items.size(); ++i) text += "  " + plain(print(items[i])) + "\n";
  return text;
}

std::string incarnations_text(const RunHistory& history) {
  std::string text = "\nIncarnations\n  " + fmt::format("{:>4} {:<20} {:>10} {:>9} {:>9} {:>9}  {}\n",
                                                        "#",
                                                        "started (UTC)",
                                                        "lasted",
                                                        "from step",
                                                        "to step",
                                                        "count",
                                                        "ended");
  return text + newest_rows(history.incarnations, [](const Incarnation& i) {
           return fmt::format("{:>4} {:<20} {:>10} {:>9} {:>9} {:>9}  {}",
                              i.number,
                              time_label(i.start),
                              seconds_label(i.end - i.start),
                              step_or_dash(i.first_step),
                              step_or_dash(i.last_step),
                              i.productive_steps,
                              i.ended.empty() ? "no record says how" : i.ended);
         });
}

std::string straggler_row(const StragglerNote& s) {
  return fmt::format(
      "{} step {} to {}: {}: {} took {:.0f} ms a step and {:.0f} ms on its peers, {:.0f} % of a step",
      time_label(s.time),
      s.step,
      s.until_step < 0 ? "the end" : std::to_string(s.until_step),
      straggler_name(s.ranks, s.node, s.host),
      s.cause,
      s.ms,
      s.peers_ms,
      100 * s.share());
}

std::string incident_text(const IncidentRecord& incident) {
  return fmt::format("{:>4} {} step {}: {}",
                     incident.number,
                     time_label(incident.time),
                     incident.reached_step,
                     story(incident));
}

std::string incident_times(const IncidentRecord& incident) {
  return fmt::format(
      "       found by {}; {}; detect {}, stop {}, rendezvous {}, load {}, first step after {}; lost steps "
      "{}",
      incident.detected_by.empty() ? "?" : incident.detected_by,
      incident.action.empty() ? "no action is written down" : incident.action,
      seconds_label(incident.detect_s),
      seconds_label(incident.stop_s),
      seconds_label(incident.rendezvous_s),
      seconds_label(incident.load_s),
      seconds_label(incident.first_step_s),
      incident.lost_steps ? std::to_string(*incident.lost_steps) : "-");
}

std::string incidents_text(const std::vector<IncidentRecord>& incidents) {
  if (incidents.empty()) return "\nNo incidents\n";
  std::string text = "\nIncidents\n";
  const std::size_t skipped = incidents.size() > kMostRows ? incidents.size() - kMostRows : 0;
  if (skipped > 0) text += fmt::format("  ... {} older ones are left out here; --json has them\n", skipped);
  for (std::size_t i = skipped; i < incidents.size(); ++i)
    text += "  " + plain(incident_text(incidents[i])) + "\n" + plain(incident_times(incidents[i])) + "\n";
  return text;
}

std::string input_text(const InputCounts& input) {
  std::vector<std::string> words;
  const auto say = [&](std::int64_t count, const char* what) {
    if (count > 0) words.push_back(fmt::format("{} {}", count, what));
  };
  say(input.bad_lines, "lines that are no records");
  say(input.torn_files, "files whose last line is torn or still being written");
  say(input.unknown_events, "events of a kind this program does not know");
  say(input.bad_incidents, "incident files that cannot be read");
  say(input.left_out, "records beyond what a report keeps");
  return words.empty() ? "" : fmt::format("\nNot read: {}\n", fmt::join(words, ", "));
}

}  // namespace

std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = c == '\n' || c == '\t' ? ' ' : '?';
  return text;
}

std::string time_label(double unix_seconds) {
  if (!(unix_seconds > 0 && unix_seconds < 1e11)) return "?";
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  char text[32];
  if (::gmtime_r(&time, &parts) == nullptr ||
      std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts) == 0)
    return "?";
  return text;
}

std::string seconds_label(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  if (seconds < 9.995) return fmt::format("{:.2f} s", std::max(0.0, seconds));
  if (seconds < 99.95) return fmt::format("{:.1f} s", seconds);
  return short_duration(seconds);
}

std::string seconds_label(const std::optional<double>& seconds) {
  return seconds ? seconds_label(*seconds) : "-";
}

std::string verdict_line(const RunHistory& history) {
  const std::int64_t step = history.newest_step ? history.newest_step->step : 0;
  const std::string of = history.total_steps > 0 ? fmt::format(" of {}", history.total_steps) : "";
  if (history.finish)
    return fmt::format("step {}{}; the newest launch ended: {} (exit code {})",
                       step,
                       of,
                       history.finish->reason,
                       history.finish->code);
  if (history.incarnations.empty()) return "nothing has been recorded yet";
  return fmt::format("step {}{}; no record of the newest launch's end: it runs, or it was cut off", step, of);
}

std::string report_text(const RunHistory& history) {
  std::string text =
      plain(fmt::format("Run {} in {}", history.name.empty() ? "?" : history.name, history.run_dir)) + "\n";
  text += plain(verdict_line(history)) + "\n";
  if (history.incarnations.empty()) return text + input_text(history.input);
  text += plain(fmt::format("{} ranks ({}), {} to {} UTC",
                            history.world_size,
                            history.layout,
                            time_label(history.start),
                            time_label(history.end))) +
          "\n";
  if (history.newest_step && history.newest_step->loss)
    text += fmt::format(
        "loss {:.4f} at step {}{}\n",
        *history.newest_step->loss,
        history.newest_step->step,
        history.newest_eval_loss ? fmt::format(", evaluation {:.4f}", *history.newest_eval_loss) : "");
  text += fmt::format(
      "checkpoints: {} saved{}{}\n",
      history.checkpoints_saved,
      history.newest_saved_step >= 0 ? fmt::format(", newest step {}", history.newest_saved_step) : "",
      history.checkpoints_saved > 0 ? ", " + short_bytes(history.checkpoint_bytes) + " in all" : "");
  text += ledger_text(history) + incarnations_text(history);
  text += incidents_text(history.incidents);
  if (!history.stragglers.empty()) text += "\nStragglers\n" + newest_rows(history.stragglers, straggler_row);
  if (!history.rejected.empty())
    text += "\nCheckpoints passed over\n" + newest_rows(history.rejected, [](const RejectedNote& note) {
              return fmt::format("{} {}: {}", time_label(note.time), note.path, note.reason);
            });
  if (!history.stops.empty())
    text += "\nStops\n" + newest_rows(history.stops, [](const StopNote& note) {
              return fmt::format("{} {}", time_label(note.time), note.signal);
            });
  return text + input_text(history.input);
}

}  // namespace llmtrain
