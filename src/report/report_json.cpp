#include <nlohmann/json.hpp>

#include "llmtrain/report/report_text.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json step_or_null(std::int64_t step) {
  return step < 0 ? Json(nullptr) : Json(step);
}

Json to_object(const Incarnation& i) {
  return {{"incarnation", i.number},
          {"start", i.start},
          {"end", i.end},
          {"first_step", step_or_null(i.first_step)},
          {"last_step", step_or_null(i.last_step)},
          {"productive_steps", i.productive_steps},
          {"productive_s", i.productive_s},
          {"world_size", i.world_size},
          {"layout", i.layout},
          {"ended", i.ended}};
}

Json to_object(const IncidentRecord& i) {
  return {{"incident", i.number},
          {"incarnation", i.incarnation},
          {"time", i.time},
          {"step", i.reached_step},
          {"detected_by", i.detected_by},
          {"first_cause", i.first_cause},
          {"node", i.node},
          {"summary", i.summary},
          {"verdict", i.verdict},
          {"waiting_for", i.waiting_for},
          {"action", i.action},
          {"detect_s", or_null(i.detect_s)},
          {"stop_s", or_null(i.stop_s)},
          {"rendezvous_s", or_null(i.rendezvous_s)},
          {"load_s", or_null(i.load_s)},
          {"first_step_s", or_null(i.first_step_s)},
          {"resumed_step", or_null(i.resumed_step)},
          {"lost_steps", or_null(i.lost_steps)}};
}

Json to_object(const RejectedNote& note) {
  return {
      {"time", note.time}, {"incarnation", note.incarnation}, {"path", note.path}, {"reason", note.reason}};
}

Json to_object(const StopNote& note) {
  return {{"time", note.time}, {"incarnation", note.incarnation}, {"signal", note.signal}};
}

Json to_object(const StragglerNote& note) {
  return {{"time", note.time},
          {"incarnation", note.incarnation},
          {"step", note.step},
          {"until_step", step_or_null(note.until_step)},
          {"ranks", note.ranks},
          {"node", note.node},
          {"host", note.host},
          {"cause", note.cause},
          {"ms", note.ms},
          {"peers_ms", note.peers_ms},
          {"step_ms", note.step_ms}};
}

template <class Item>
Json to_array(const std::vector<Item>& items) {
  Json array = Json::array();
  for (const Item& item : items) array.push_back(to_object(item));
  return array;
}

Json ledger_object(const LedgerTotals& ledger) {
  Json object = Json::object();
  for (std::size_t i = 0; i < kNumTimeClasses; ++i)
    object[std::string(name(static_cast<TimeClass>(i))) + "_s"] = ledger.seconds[i];
  return object;
}

Json input_object(const InputCounts& input) {
  return {{"steps", input.steps},
          {"events", input.events},
          {"unknown_events", input.unknown_events},
          {"bad_lines", input.bad_lines},
          {"torn_files", input.torn_files},
          {"bad_incidents", input.bad_incidents},
          {"left_out", input.left_out}};
}

Json finish_object(const std::optional<FinishNote>& finish) {
  if (!finish) return nullptr;
  return {{"time", finish->time}, {"code", finish->code}, {"step", finish->step}, {"reason", finish->reason}};
}

}  // namespace

std::string report_json(const RunHistory& h) {
  const Json root = {
      {"schema", kReportSchema},
      {"run_dir", h.run_dir},
      {"run", h.name},
      {"layout", h.layout},
      {"world_size", h.world_size},
      {"start", h.start},
      {"end", h.end},
      {"step", h.newest_step ? h.newest_step->step : 0},
      {"total_steps", h.total_steps},
      {"loss", h.newest_step ? or_null(h.newest_step->loss) : Json(nullptr)},
      {"finished", finish_object(h.finish)},
      {"wall_s", h.ledger.wall()},
      {"effective_ratio", h.ledger.effective_ratio()},
      {"productive_steps", h.ledger.productive_steps},
      {"replayed_steps", h.ledger.replayed_steps},
      {"ledger", ledger_object(h.ledger)},
      {"incarnations", to_array(h.incarnations)},
      {"incidents", to_array(h.incidents)},
      {"checkpoints",
       {{"saved", h.checkpoints_saved},
        {"bytes", h.checkpoint_bytes},
        {"newest_step", step_or_null(h.newest_saved_step)},
        {"rejected", to_array(h.rejected)}}},
      {"evaluations", {{"count", h.evaluations}, {"newest_loss", or_null(h.newest_eval_loss)}}},
      {"stops", to_array(h.stops)},
      {"stragglers", to_array(h.stragglers)},
      {"input", input_object(h.input)}};
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain
