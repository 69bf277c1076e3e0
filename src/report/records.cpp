#include "llmtrain/report/records.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "lenient_json.hpp"

namespace llmtrain {
namespace {

using namespace lenient;

constexpr std::array<std::pair<std::string_view, EventKind>, 15> kKinds = {
    {{"run_started", EventKind::kRunStarted},
     {"eval", EventKind::kEval},
     {"checkpoint_saved", EventKind::kCheckpointSaved},
     {"checkpoint_loaded", EventKind::kCheckpointLoaded},
     {"checkpoint_rejected", EventKind::kCheckpointRejected},
     {"worker_exited", EventKind::kWorkerExited},
     {"restart", EventKind::kRestart},
     {"straggler", EventKind::kStraggler},
     {"straggler_over", EventKind::kStragglerOver},
     {"stop_requested", EventKind::kStopRequested},
     {"run_finished", EventKind::kRunFinished},
     {"note", EventKind::kNote},
     {"comm_totals", EventKind::kTotals},
     {"memory", EventKind::kTotals},
     {"phase_totals", EventKind::kTotals}}};

EventKind kind_named(std::string_view name) {
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& k) { return k.first == name; });
  return found == kKinds.end() ? EventKind::kUnknown : found->second;
}

std::string first_text(const json& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (std::string found = text(object, key); !found.empty()) return found;
  return {};
}

std::optional<double> seconds(const json& object, const char* key) {
  const auto ms = number(object, key);
  return ms && *ms >= 0 ? std::optional(*ms / 1e3) : std::nullopt;
}

void read_chain(const json& object, IncidentRecord& incident) {
  const json* const chain = find(object, "chain");
  if (chain == nullptr || !chain->is_array()) return;
  for (const json& end : *chain) {
    if (!end.is_object()) continue;
    const json* const killed = find(end, "killed_by_agent");
    incident.chain.push_back({small(end, "rank", -1),
                              text(end, "cause"),
                              killed != nullptr && killed->is_boolean() && killed->get<bool>()});
  }
}

void read_boxes(const json& object, IncidentRecord& incident) {
  const json* const boxes = find(object, "black_boxes");
  if (boxes == nullptr || !boxes->is_array()) return;
  for (const json& box : *boxes) {
    if (!box.is_object()) continue;
    incident.reached_step = std::max(incident.reached_step, integer(box, "step").value_or(0));
    const bool first =
        !incident.first_cause.empty() && small(box, "rank", -1) == incident.first_cause.front();
    if (first && incident.node.empty()) incident.node = text(box, "node");
  }
}

}  // namespace

std::optional<StepRow> step_row(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = integer(object, "step");
  const auto time = number(object, "time");
  if (!step || *step < 0 || !time) return std::nullopt;
  StepRow row;
  row.step = *step;
  row.time = *time;
  row.incarnation = small(object, "incarnation");
  row.loss = number(object, "loss");
  row.tok_s = number(object, "tok_s");
  row.step_ms = number(object, "step_ms");
  row.mfu = number(object, "mfu");
  row.tokens = integer(object, "tokens").value_or(0);
  row.skipped = integer(object, "skipped").value_or(0);
  return row;
}

std::optional<EventRow> event_row(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto time = number(object, "time");
  const std::string event = text(object, "event");
  if (!time || event.empty()) return std::nullopt;
  EventRow row;
  row.kind = kind_named(event);
  row.time = *time;
  row.incarnation = small(object, "incarnation");
  const bool started = row.kind == EventKind::kRunStarted;
  row.step = integer(object, started ? "first_step" : "step").value_or(0);
  row.total_steps = integer(object, "total_steps").value_or(0);
  row.world_size = small(object, "world_size");
  row.rank = small(object, "rank", -1);
  row.code = small(object, "code");
  row.restarts = small(object, "restarts");
  row.max_restarts = small(object, "max_restarts");
  row.loss = number(object, "loss");
  row.ms = std::max(0.0, number(object, "ms").value_or(0));
  row.bytes = integer(object, "bytes").value_or(0);
  row.name = text(object, "run");
  row.layout = text(object, "layout");
  row.path = text(object, "path");
  row.severity = text(object, "severity");
  row.ranks = text(object, "ranks");
  row.node = small(object, "node", -1);
  row.host = text(object, "host");
  row.peers_ms = std::max(0.0, number(object, "peers_ms").value_or(0));
  row.step_ms = std::max(0.0, number(object, "step_ms").value_or(0));
  row.text = first_text(object, {"cause", "reason", "signal", "text"});
  return row;
}

std::optional<IncidentRecord> incident_record(std::string_view text_of_file) {
  const json object = json::parse(text_of_file, nullptr, false);
  if (!object.is_object() || !integer(object, "incident")) return std::nullopt;
  IncidentRecord incident;
  incident.number = small(object, "incident");
  incident.incarnation = small(object, "incarnation");
  incident.time = number(object, "time").value_or(0);
  incident.detected_by = text(object, "detected_by");
  if (const json* const ranks = find(object, "first_cause"); ranks != nullptr && ranks->is_array())
    for (const json& rank : *ranks)
      if (rank.is_number_integer()) incident.first_cause.push_back(rank.get<int>());
  incident.node = text(object, "node");
  incident.summary = text(object, "summary");
  incident.verdict = text(object, "verdict");
  incident.waiting_for = text(object, "waiting_for");
  incident.action = text(object, "action");
  incident.detect_s = seconds(object, "detect_ms");
  incident.stop_s = seconds(object, "stop_ms");
  incident.rendezvous_s = seconds(object, "rendezvous_ms");
  incident.load_s = seconds(object, "load_ms");
  incident.first_step_s = seconds(object, "first_step_ms");
  incident.resumed_step = integer(object, "resumed_step");
  incident.lost_steps = integer(object, "lost_steps");
  read_chain(object, incident);
  read_boxes(object, incident);
  return incident;
}

const std::string& story(const IncidentRecord& incident) {
  return incident.verdict.empty() ? incident.summary : incident.verdict;
}

}  // namespace llmtrain
