#include "strict_json.hpp"

#include <set>

#include <fmt/format.h>

namespace llmtrain {
using nlohmann::json;

Result<json> parse_strict_json(std::string_view text, int max_depth, const std::string& origin) {
  std::vector<std::set<std::string>> keys;  // of every open object
  std::string problem;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > max_depth && problem.empty()) problem = fmt::format("JSON nested deeper than {}", max_depth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second &&
        problem.empty())
      problem = fmt::format("the key \"{}\" appears twice", parsed.get<std::string>());
    return problem.empty();
  };
  json value;
  try {
    value = json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    if (problem.empty()) problem = fmt::format("not valid JSON: {}", error.what());
  }
  if (problem.empty() && !value.is_object()) problem = "a JSON object is needed";
  if (!problem.empty()) return Error{ErrorCode::kCorrupt, origin + ": " + problem, ""};
  return value;
}

JsonFields::JsonFields(const json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) fail("a JSON object is needed");
}

void JsonFields::fail(std::string what) {
  if (problem_.empty()) problem_ = std::move(what);
}

const json* JsonFields::find(const char* key, const char* wanted) {
  if (!object_->is_object()) return nullptr;
  const auto found = object_->find(key);
  if (found != object_->end()) return &*found;
  fail(fmt::format("\"{}\" is missing; {} is needed", key, wanted));
  return nullptr;
}

std::string JsonFields::text(const char* key) {
  const json* value = find(key, "a string");
  if (value && value->is_string()) return value->get<std::string>();
  if (value) fail(fmt::format("\"{}\" is {}; a string is needed", key, value->type_name()));
  return {};
}

std::int64_t JsonFields::integer(const char* key, std::int64_t min, std::int64_t max) {
  const json* value = find(key, "an integer");
  if (!value) return min;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() || value->get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (fits && value->get<std::int64_t>() >= min && value->get<std::int64_t>() <= max)
    return value->get<std::int64_t>();
  fail(fmt::format("\"{}\" is not an integer between {} and {}", key, min, max));
  return min;
}

std::uint64_t JsonFields::natural(const char* key) {
  const json* value = find(key, "an integer");
  if (value && value->is_number_unsigned()) return value->get<std::uint64_t>();
  if (value) fail(fmt::format("\"{}\" is not an integer >= 0", key));
  return 0;
}

std::vector<std::int64_t> JsonFields::integers(const char* key, std::size_t max_count) {
  std::vector<std::int64_t> numbers;
  for (const json& value : array(key, max_count)) {
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
      fail(fmt::format("\"{}\" holds something that is not an integer >= 0", key));
      return {};
    }
    numbers.push_back(value.get<std::int64_t>());
  }
  return numbers;
}

const json& JsonFields::object(const char* key) {
  const json* value = find(key, "an object");
  if (value && value->is_object()) return *value;
  if (value) fail(fmt::format("\"{}\" is {}; an object is needed", key, value->type_name()));
  return empty_object_;
}

const json& JsonFields::array(const char* key, std::size_t max_count) {
  const json* value = find(key, "an array");
  if (value && value->is_array() && value->size() <= max_count) return *value;
  if (value) fail(fmt::format("\"{}\" is not an array of at most {} elements", key, max_count));
  return empty_array_;
}

}  // namespace llmtrain
