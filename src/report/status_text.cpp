#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/monitor/event_text.hpp"
#include "llmtrain/report/report_text.hpp"
#include "llmtrain/report/run_status.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMostRanks = 64;  // on a terminal; --json has all

std::string row(const char* key, const std::string& value) {
  return plain(fmt::format("{:<12} {}", key, value)) + "\n";
}

std::string state_row(const RunStatus& s) {
  return row(
      "state",
      s.why.empty() ? std::string(to_string(s.state)) : fmt::format("{}: {}", to_string(s.state), s.why));
}

std::string progress_rows(const RunStatus& s) {
  std::string of;
  if (s.total_steps > 0)
    of = fmt::format(" of {} ({:.1f} %)",
                     s.total_steps,
                     100 * static_cast<double>(s.step) / static_cast<double>(s.total_steps));
  std::string text = row("step", fmt::format("{}{}", s.step, of));
  if (s.loss) text += row("loss", fmt::format("{:.4f}", *s.loss));
  if (s.seconds_per_step)
    text += row("rate",
                fmt::format("{} a step{}{}",
                            *s.seconds_per_step < 1 ? fmt::format("{:.0f} ms", *s.seconds_per_step * 1e3)
                                                    : seconds_label(*s.seconds_per_step),
                            s.tok_s ? fmt::format(", {:.0f} tokens a second", *s.tok_s) : "",
                            s.mfu ? fmt::format(", mfu {:.2f}", *s.mfu) : ""));
  if (s.seconds_left) text += row("left", short_duration(*s.seconds_left));
  return text;
}

std::string checkpoint_rows(const RunStatus& s) {
  std::string text;
  if (s.checkpoint)
    text += row("checkpoint",
                fmt::format("step {}, {}, saved {} UTC, manifest and sizes are right: {}",
                            s.checkpoint->step,
                            short_bytes(static_cast<std::int64_t>(s.checkpoint->bytes)),
                            time_label(static_cast<double>(s.checkpoint->saved_at)),
                            s.checkpoint->path));
  else
    text += row("checkpoint", "none");
  if (!s.checkpoint_problem.empty()) text += row("", "not usable: " + s.checkpoint_problem);
  return text;
}

std::string rank_rows(const StatusFile& agents) {
  std::string text;
  std::size_t ranks = 0;
  for (const NodeStatus& node : agents.nodes) {
    text += "\n" +
            plain(fmt::format("node {}{}{}: {}",
                              node.node,
                              node.host.empty() ? "" : " " + node.host,
                              node.pid > 0 ? fmt::format(" (pid {})", node.pid) : "",
                              node.control)) +
            "\n";
    for (const RankStatus& rank : node.ranks)
      if (++ranks <= kMostRanks)
        text += plain(fmt::format(
                    "  rank {:>4}  step {:>8}  {:<28} micro-batch {:>3}  sign of life {} ago, pid {}",
                    rank.rank,
                    rank.step,
                    rank.phase,
                    rank.micro_batch,
                    seconds_label(rank.heartbeat_age_s),
                    rank.pid)) +
                "\n";
  }
  if (ranks > kMostRanks) text += fmt::format("  {} more ranks: see --json\n", ranks - kMostRanks);
  return text;
}

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json checkpoint_object(const std::optional<CheckpointEntry>& entry) {
  if (!entry) return nullptr;
  return {
      {"step", entry->step}, {"bytes", entry->bytes}, {"saved_at", entry->saved_at}, {"path", entry->path}};
}

Json incident_object(const std::optional<IncidentRecord>& i) {
  if (!i) return nullptr;
  return {{"incident", i->number},
          {"time", i->time},
          {"incarnation", i->incarnation},
          {"first_cause", i->first_cause},
          {"node", i->node},
          {"text", story(*i)},
          {"action", i->action},
          {"lost_steps", or_null(i->lost_steps)}};
}

Json stragglers_array(const std::vector<StragglerNote>& stragglers) {
  Json array = Json::array();
  for (const StragglerNote& s : stragglers)
    array.push_back({{"ranks", s.ranks},
                     {"node", s.node},
                     {"host", s.host},
                     {"cause", s.cause},
                     {"step", s.step},
                     {"share", s.share()}});
  return array;
}

Json nodes_array(const std::optional<StatusFile>& agents) {
  if (!agents) return Json::array();
  const Json parsed = Json::parse(to_json(*agents), nullptr, false);
  return parsed.is_object() ? parsed["nodes"] : Json::array();
}

}  // namespace

std::string status_text(const RunStatus& s, std::optional<double> now) {
  std::string text =
      row("run", fmt::format("{} in {}", s.name.empty() ? "?" : s.name, s.run_dir)) + state_row(s);
  if (s.state != RunState::kNew) text += progress_rows(s);
  if (s.world_size > 0)
    text +=
        row("ranks",
            s.layout.empty() ? std::to_string(s.world_size) : fmt::format("{} ({})", s.world_size, s.layout));
  if (s.incarnation >= 0)
    text += row("restarts",
                fmt::format("{}{} in this launch; incarnation {}",
                            s.restarts,
                            s.max_restarts > 0 ? fmt::format(" of {}", s.max_restarts) : "",
                            s.incarnation));
  text += checkpoint_rows(s);
  if (const auto& i = s.newest_incident)
    text += row("incident",
                fmt::format("{} of {}, {} UTC: {}{}",
                            i->number,
                            s.incidents,
                            time_label(i->time),
                            story(*i),
                            i->action.empty() ? "" : fmt::format(" ({})", i->action)));
  else if (s.state != RunState::kNew)
    text += row("incident", "none");
  for (const StragglerNote& straggler : s.stragglers)
    text += row("straggler",
                fmt::format("{}: {} since step {}, {:.0f} % of a step",
                            straggler_name(straggler.ranks, straggler.node, straggler.host),
                            straggler.cause,
                            straggler.step,
                            100 * straggler.share()));
  if (s.newest_time)
    text +=
        row("last record",
            time_label(*s.newest_time) + " UTC" +
                (now && *now >= *s.newest_time ? ", " + short_duration(*now - *s.newest_time) + " ago" : ""));
  if (!s.logs.empty()) text += row("logs", s.logs);
  if (s.agents) text += rank_rows(*s.agents);
  return text;
}

std::string status_json(const RunStatus& s, int indent) {
  const Json root = {{"schema", kStatusSchema},
                     {"run_dir", s.run_dir},
                     {"run", s.name},
                     {"state", to_string(s.state)},
                     {"why", s.why},
                     {"live", s.live},
                     {"step", s.step},
                     {"total_steps", s.total_steps},
                     {"loss", or_null(s.loss)},
                     {"tok_s", or_null(s.tok_s)},
                     {"mfu", or_null(s.mfu)},
                     {"seconds_per_step", or_null(s.seconds_per_step)},
                     {"seconds_left", or_null(s.seconds_left)},
                     {"newest_time", or_null(s.newest_time)},
                     {"world_size", s.world_size},
                     {"layout", s.layout},
                     {"incarnation", s.incarnation < 0 ? Json(nullptr) : Json(s.incarnation)},
                     {"restarts", s.restarts},
                     {"max_restarts", s.max_restarts},
                     {"checkpoint", checkpoint_object(s.checkpoint)},
                     {"checkpoint_problem", s.checkpoint_problem},
                     {"incidents", s.incidents},
                     {"newest_incident", incident_object(s.newest_incident)},
                     {"stragglers", stragglers_array(s.stragglers)},
                     {"logs", s.logs},
                     {"nodes", nodes_array(s.agents)}};
  return root.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain
