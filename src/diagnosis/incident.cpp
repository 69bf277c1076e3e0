#include "llmtrain/diagnosis/incident.hpp"

#include <algorithm>
#include <csignal>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/job/worker_exit.hpp"

namespace llmtrain {
namespace {

using nlohmann::json;

template <class T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_object(const CollectiveNote& call) {
  return {{"begun", call.count},
          {"group", call.group},
          {"op", call.op},
          {"sequence", call.sequence},
          {"bytes", call.bytes},
          {"finished", call.finished}};
}

json to_object(const RankNote& note) {
  json object = {{"rank", note.rank},
                 {"node", note.node},
                 {"step", note.step},
                 {"phase", note.phase},
                 {"micro_batch", note.micro_batch},
                 {"heartbeat_age_s", note.heartbeat_age_s},
                 {"process_state", note.process_state},
                 {"wait_channel", note.wait_channel},
                 {"stack", note.stack},
                 {"collective", nullptr},
                 {"waiting", nullptr}};
  if (const auto& last = note.collective) object["collective"] = to_object(*last);
  if (note.waiting) object["waiting"] = to_object(*note.waiting);
  return object;
}

json to_object(const EndNote& end) {
  return {{"rank", end.rank},
          {"pid", end.pid},
          {"signaled", end.signaled},
          {"code", end.code},
          {"cause", end.cause},
          {"at_ms", end.at_ms},
          {"killed_by_agent", end.by_agent}};
}

json to_object(const IncidentMark& mark) {
  return {{"at_ms", mark.at_ms}, {"text", mark.text}};
}

json to_object(const std::pair<int, int>& pair) {
  return json::array({pair.first, pair.second});
}

template <class T>
json to_array(const std::vector<T>& items) {
  json array = json::array();
  for (const T& item : items) array.push_back(to_object(item));
  return array;
}

}  // namespace

std::vector<int> laggards(const std::vector<RankNote>& notes) {
  std::uint64_t fewest = ~std::uint64_t{0};
  std::uint64_t most = 0;
  const auto begun = [](const RankNote& note) { return note.collective ? note.collective->count : 0; };
  for (const RankNote& note : notes) {
    fewest = std::min(fewest, begun(note));
    most = std::max(most, begun(note));
  }
  std::vector<int> ranks;
  if (notes.empty() || fewest == most) return ranks;
  for (const RankNote& note : notes)
    if (begun(note) == fewest) ranks.push_back(note.rank);
  return ranks;
}

std::string describe_end(bool signaled, int code) {
  if (signaled) {
    const char* const name = sigabbrev_np(code);
    return name == nullptr ? fmt::format("signal {}", code) : fmt::format("signal {} (SIG{})", code, name);
  }
  const std::string_view meaning = describe_worker_exit(code);
  return meaning.empty() ? fmt::format("exit {}", code) : fmt::format("exit {}: {}", code, meaning);
}

std::string to_json(const Incident& incident) {
  const json object = {{"incident", incident.number},
                       {"incarnation", incident.incarnation},
                       {"time", incident.time},
                       {"detected_by", incident.detected_by},
                       {"first_cause", incident.first_cause},
                       {"summary", incident.summary},
                       {"kind", incident.kind},
                       {"confidence", incident.confidence},
                       {"verdict", incident.verdict},
                       {"node", or_null(incident.node)},
                       {"host", incident.host},
                       {"waiting_for", to_array(incident.waiting_for)},
                       {"chain", to_array(incident.chain)},
                       {"black_boxes", to_array(incident.black_boxes)},
                       {"events", to_array(incident.events)},
                       {"detect_ms", or_null(incident.detect_ms)},
                       {"stop_ms", incident.stop_ms},
                       {"rendezvous_ms", or_null(incident.rendezvous_ms)},
                       {"load_ms", or_null(incident.load_ms)},
                       {"action", incident.action},
                       {"resumed_step", or_null(incident.resumed_step)},
                       {"lost_steps", or_null(incident.lost_steps)},
                       {"first_step_ms", or_null(incident.first_step_ms)}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace llmtrain
