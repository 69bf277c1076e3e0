#include "llmtrain/report/html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/monitor/event_text.hpp"
#include "llmtrain/report/report_text.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMostRows = 1000;

constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--bg:#fff;--fg:#1d2228;--soft:#667080;--rule:#dde2e8;--line:#2463b8;--band:#2463b833;--bad:#c0392b;--eval:#b9770e;
--c0:#2e8b57;--c1:#c0392b;--c2:#5b84b1;--c3:#b9770e;--c4:#7d5ba6;--c5:#e0633c;--c6:#d9a036;--c7:#59636e;--c8:#b4bcc6}
@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--soft:#98a2ae;--rule:#2c333b;--line:#6aa5f0;--band:#6aa5f033;--bad:#ff7b6b;--eval:#f0b35a;
--c0:#4fb37e;--c1:#e0604f;--c2:#7ba3cf;--c3:#dba046;--c4:#a585cd;--c5:#ef8460;--c6:#e9bd62;--c7:#79838f;--c8:#4a525c}}
*{box-sizing:border-box}body{margin:0 auto;max-width:72rem;padding:1.5rem;background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}p{margin:.3rem 0}.soft{color:var(--soft)}code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2.5rem;margin:1.2rem 0}dl div{min-width:7rem}dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}th,td{text-align:left;padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--rule);vertical-align:top}
th{color:var(--soft);font-weight:500;white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap}td.w{min-width:18rem;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block}.grid{stroke:var(--rule)}.label{fill:var(--soft);font-size:12px}.title{fill:var(--fg);font-size:14px;font-weight:600}
.line{fill:none;stroke:var(--line);stroke-width:1.5;stroke-linejoin:round}.dot{fill:var(--line)}.band{fill:var(--band);stroke:none}.eval{fill:none;stroke:var(--eval);stroke-width:2}
.incident line{stroke:var(--bad);stroke-dasharray:4 3}.incident path{fill:var(--bad)}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.5em}
.c0{fill:var(--c0);background:var(--c0)}.c1{fill:var(--c1);background:var(--c1)}.c2{fill:var(--c2);background:var(--c2)}.c3{fill:var(--c3);background:var(--c3)}.c4{fill:var(--c4);background:var(--c4)}
.c5{fill:var(--c5);background:var(--c5)}.c6{fill:var(--c6);background:var(--c6)}.c7{fill:var(--c7);background:var(--c7)}.c8{fill:var(--c8);background:var(--c8)}
)";

std::string figure(std::string_view term, const std::string& value) {
  return fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", term, html_text(value));
}

std::string head(const RunHistory& h) {
  const std::string title = html_text(h.name.empty() ? "run" : h.name);
  std::string page = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<title>{0}: run report</title><style>{1}</style></head><body>\n<h1>{0}</h1>\n"
      "<p class=\"soft\"><code>{2}</code></p>\n<p>{3}</p>\n",
      title,
      kStyle,
      html_text(h.run_dir),
      html_text(verdict_line(h)));
  if (h.incarnations.empty()) return page;
  page += "<dl>\n" +
          figure("effective training time", fmt::format("{:.1f} %", 100 * h.ledger.effective_ratio())) +
          figure("wall time", seconds_label(h.ledger.wall())) +
          figure("steps that count", std::to_string(h.ledger.productive_steps)) +
          figure("lost steps", std::to_string(h.ledger.replayed_steps)) +
          figure("incidents", std::to_string(h.incidents.size())) +
          figure("loss",
                 h.newest_step && h.newest_step->loss ? fmt::format("{:.4f}", *h.newest_step->loss) : "-") +
          figure("checkpoints", std::to_string(h.checkpoints_saved)) + "</dl>\n";
  return page + fmt::format("<p class=\"soft\">{} ranks ({}), {} to {} UTC</p>\n",
                            h.world_size,
                            html_text(h.layout),
                            time_label(h.start),
                            time_label(h.end));
}

std::string ledger_part(const RunHistory& h) {
  const double wall = h.ledger.wall();
  if (wall <= 0) return {};
  std::string part = "<h2>Where the time went</h2>\n" + ledger_svg(h.ledger) + "<table>\n";
  for (std::size_t i = 0; i < kNumTimeClasses; ++i)
    if (h.ledger.seconds[i] > 0)
      part += fmt::format(
          "<tr><td><span class=\"key c{}\"></span>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1f} "
          "%</td></tr>\n",
          i,
          description(static_cast<TimeClass>(i)),
          seconds_label(h.ledger.seconds[i]),
          100 * h.ledger.seconds[i] / wall);
  return part + "</table>\n";
}

template <class Item, class Print>
std::string table(std::string_view header, const std::vector<Item>& items, Print&& print) {
  std::string part;
  const std::size_t skipped = items.size() > kMostRows ? items.size() - kMostRows : 0;
  if (skipped > 0) part += fmt::format("<p class=\"soft\">{} older ones are left out here.</p>\n", skipped);
  part += fmt::format("<div class=\"scroll\"><table><tr>{}</tr>\n", header);
  for (std::size_t i = skipped; i < items.size(); ++i) part += "<tr>" + print(items[i]) + "</tr>\n";
  return part + "</table></div>\n";
}

std::string number_cell(const std::string& text) {
  return fmt::format("<td class=\"n\">{}</td>", html_text(text));
}
std::string text_cell(const std::string& text) {
  return fmt::format("<td class=\"w\">{}</td>", html_text(text));
}
std::string step_cell(std::int64_t step) {
  return number_cell(step < 0 ? "-" : std::to_string(step));
}

std::string incidents_part(const RunHistory& h) {
  if (h.incidents.empty()) return "<h2>Incidents</h2>\n<p>None.</p>\n";
  const std::string header =
      "<th class=\"n\">#</th><th>when (UTC)</th><th class=\"n\">step</th><th>what "
      "happened</th><th>action</th><th class=\"n\">detect</th>"
      "<th class=\"n\">stop</th><th class=\"n\">rendezvous</th><th class=\"n\">load</th><th "
      "class=\"n\">first step after</th><th class=\"n\">lost steps</th>";
  return "<h2>Incidents</h2>\n" + table(header, h.incidents, [](const IncidentRecord& i) {
           return number_cell(std::to_string(i.number)) + fmt::format("<td>{}</td>", time_label(i.time)) +
                  step_cell(i.reached_step) + text_cell(story(i)) +
                  fmt::format("<td>{}</td>", html_text(i.action)) + number_cell(seconds_label(i.detect_s)) +
                  number_cell(seconds_label(i.stop_s)) + number_cell(seconds_label(i.rendezvous_s)) +
                  number_cell(seconds_label(i.load_s)) + number_cell(seconds_label(i.first_step_s)) +
                  number_cell(i.lost_steps ? std::to_string(*i.lost_steps) : "-");
         });
}

std::string stragglers_part(const RunHistory& h) {
  if (h.stragglers.empty()) return "";
  const std::string header =
      "<th>found (UTC)</th><th class=\"n\">step</th><th class=\"n\">until step</th><th>who</th><th>cause</th>"
      "<th class=\"n\">ms a step</th><th class=\"n\">of its peers</th><th class=\"n\">of a step lost</th>";
  return "<h2>Stragglers</h2>\n" + table(header, h.stragglers, [](const StragglerNote& s) {
           return fmt::format("<td>{}</td>", time_label(s.time)) + step_cell(s.step) +
                  step_cell(s.until_step) + text_cell(straggler_name(s.ranks, s.node, s.host)) +
                  fmt::format("<td>{}</td>", html_text(s.cause)) + number_cell(fmt::format("{:.0f}", s.ms)) +
                  number_cell(fmt::format("{:.0f}", s.peers_ms)) +
                  number_cell(fmt::format("{:.0f} %", 100 * s.share()));
         });
}

std::string incarnations_part(const RunHistory& h) {
  const std::string header =
      "<th class=\"n\">#</th><th>started (UTC)</th><th class=\"n\">lasted</th><th class=\"n\">from "
      "step</th><th class=\"n\">to step</th>"
      "<th class=\"n\">steps that count</th><th class=\"n\">ranks</th><th>ended</th>";
  return "<h2>Incarnations</h2>\n" + table(header, h.incarnations, [](const Incarnation& i) {
           return number_cell(std::to_string(i.number)) + fmt::format("<td>{}</td>", time_label(i.start)) +
                  number_cell(seconds_label(i.end - i.start)) + step_cell(i.first_step) +
                  step_cell(i.last_step) + number_cell(std::to_string(i.productive_steps)) +
                  number_cell(i.world_size > 0 ? std::to_string(i.world_size) : "-") +
                  text_cell(i.ended.empty() ? "no record says how" : i.ended);
         });
}

std::string notes_part(const RunHistory& h) {
  std::string part;
  if (!h.rejected.empty())
    part +=
        "<h2>Checkpoints passed over</h2>\n" +
        table("<th>when (UTC)</th><th>path</th><th>reason</th>", h.rejected, [](const RejectedNote& note) {
          return fmt::format("<td>{}</td>", time_label(note.time)) + text_cell(note.path) +
                 text_cell(note.reason);
        });
  if (!h.stops.empty())
    part +=
        "<h2>Stops</h2>\n" + table("<th>when (UTC)</th><th>signal</th>", h.stops, [](const StopNote& note) {
          return fmt::format("<td>{}</td>", time_label(note.time)) + text_cell(note.signal);
        });
  const InputCounts& in = h.input;
  part += fmt::format(
      "<p class=\"soft\">Read: {} steps, {} events ({} of unknown kind); not read: {} lines, {} torn ends, "
      "{} incident "
      "files.</p>\n",
      in.steps,
      in.events,
      in.unknown_events,
      in.bad_lines,
      in.torn_files,
      in.bad_incidents);
  return part;
}

}  // namespace

std::string report_html(const RunHistory& h) {
  std::string page = head(h);
  if (!h.incarnations.empty()) {
    page += curve_svg({"loss", h.eval.points().empty() ? "by step" : "by step; circles: evaluation"},
                      h.loss,
                      &h.eval,
                      h.incidents);
    page += curve_svg({"tokens a second", "by step"}, h.rate, nullptr, h.incidents);
    page += ledger_part(h) + incidents_part(h) + stragglers_part(h) + incarnations_part(h);
  }
  return page + notes_part(h) + "</body></html>\n";
}

}  // namespace llmtrain
