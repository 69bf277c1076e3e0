#include "llmtrain/monitor/events.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "event_fields.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

// A message longer than this did not come from us; the longest real one is a note with a stack.
constexpr std::size_t kMaxLineBytes = 1 << 20;

constexpr std::array kSeverities = {"info", "warning", "error"};

Json to_json(std::int64_t value) {
  return value;
}
Json to_json(int value) {
  return value;
}
Json to_json(const std::string& value) {
  return value;
}
Json to_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}
Json to_json(const std::optional<double>& value) {
  return value ? to_json(*value) : Json(nullptr);
}
Json to_json(Severity value) {
  return kSeverities[static_cast<std::size_t>(value)];
}

bool from_json(const Json& json, std::int64_t& value) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  value = json.get<std::int64_t>();
  return true;
}

bool from_json(const Json& json, int& value) {
  std::int64_t wide = 0;
  if (!from_json(json, wide) || wide != static_cast<int>(wide)) return false;
  value = static_cast<int>(wide);
  return true;
}

// null stands for a number that was not finite.
bool from_json(const Json& json, double& value) {
  if (!json.is_number() && !json.is_null()) return false;
  value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
  return true;
}

bool from_json(const Json& json, std::optional<double>& value) {
  if (!json.is_number() && !json.is_null()) return false;
  value = json.is_null() ? std::nullopt : std::optional(json.get<double>());
  return true;
}

bool from_json(const Json& json, std::string& value) {
  if (!json.is_string()) return false;
  value = json.get<std::string>();
  return true;
}

bool from_json(const Json& json, Severity& value) {
  if (!json.is_string()) return false;
  for (std::size_t i = 0; i < kSeverities.size(); ++i)
    if (json.get_ref<const std::string&>() == kSeverities[i]) {
      value = static_cast<Severity>(i);
      return true;
    }
  return false;
}

Error bad_message(std::string what) {
  return {ErrorCode::kCorrupt, "event message: " + std::move(what), ""};
}

// Calls visit(field) for every field of the event type T.
template <class T, class Visit>
void for_each_field(Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, EventTraits<T>::fields);
}

template <class T>
Json body_to_json(Json json, const T& body) {
  for_each_field<T>([&](const auto& field) { json[std::string(field.key)] = to_json(body.*field.member); });
  return json;
}

// Text that came from a path or a peer may not be UTF-8; it is repaired, never a reason to fail.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Value>
Status read_key(const Json& json, std::string_view key, Value& value) {
  const auto found = json.find(std::string(key));
  if (found == json.end()) return bad_message(fmt::format("key `{}` is missing", key));
  if (!from_json(*found, value))
    return bad_message(fmt::format("key `{}` cannot be `{}`", key, dump(*found).substr(0, 80)));
  return ok_status();
}

template <class T>
Result<EventBody> body_from_json(const Json& json) {
  T body;
  Status status = ok_status();
  std::size_t known = 3;  // time, event, incarnation
  for_each_field<T>([&](const auto& field) {
    ++known;
    if (status) status = read_key(json, field.key, body.*field.member);
  });
  LLMTRAIN_TRY(status);
  if (json.size() == known) return EventBody(std::move(body));
  for (const auto& item : json.items()) {
    bool expected = item.key() == "time" || item.key() == "event" || item.key() == "incarnation";
    for_each_field<T>([&](const auto& field) { expected = expected || item.key() == field.key; });
    if (!expected)
      return bad_message(
          fmt::format("event `{}` has no key `{}`", EventTraits<T>::name, item.key().substr(0, 80)));
  }
  return bad_message("it holds more keys than it should");
}

// Tries each alternative of EventBody until one has that name.
template <std::size_t I = 0>
Result<EventBody> body_named(const std::string& name, const Json& json) {
  if constexpr (I == std::variant_size_v<EventBody>) {
    return bad_message(fmt::format("no event is called `{}`", name.substr(0, 80)));
  } else {
    using T = std::variant_alternative_t<I, EventBody>;
    return name == EventTraits<T>::name ? body_from_json<T>(json) : body_named<I + 1>(name, json);
  }
}

}  // namespace

const char* event_name(const EventBody& body) {
  return std::visit([](const auto& b) { return EventTraits<std::decay_t<decltype(b)>>::name; }, body);
}

std::string to_json_line(const Event& event) {
  Json head;
  head["time"] = to_json(event.time);
  head["event"] = event_name(event.body);
  head["incarnation"] = event.incarnation;
  return dump(std::visit([&](const auto& body) { return body_to_json(std::move(head), body); }, event.body));
}

std::string to_metrics_line(const StepReport& report, double time, int incarnation) {
  Json row = body_to_json(Json::object(), report);
  row.erase("data_wait_ms");
  row.erase("loss_scale");
  row["incarnation"] = incarnation;
  row["time"] = to_json(time);
  row["data_wait_ms"] = to_json(report.data_wait_ms);
  row["loss_scale"] = to_json(report.loss_scale);
  return dump(row);
}

Result<Event> event_from_json(const std::string& line) {
  if (line.size() > kMaxLineBytes)
    return bad_message(fmt::format("{} bytes long; at most {} are allowed", line.size(), kMaxLineBytes));
  const Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object())
    return bad_message(fmt::format("not a JSON object: `{}`", line.substr(0, 80)));
  Event event;
  std::string name;
  LLMTRAIN_TRY(read_key(json, "time", event.time));
  LLMTRAIN_TRY(read_key(json, "event", name));
  LLMTRAIN_TRY(read_key(json, "incarnation", event.incarnation));
  LLMTRAIN_ASSIGN(body, body_named(name, json));
  event.body = std::move(body);
  return event;
}

}  // namespace llmtrain
