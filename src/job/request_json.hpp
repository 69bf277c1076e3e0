#pragma once

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/result.hpp"

// Requests to the engine as JSON objects, by one list of fields: `visit(request, field)` is found by
// argument-dependent lookup and calls field("name", request.name) for every member.
namespace llmtrain {

inline bool read_json(const nlohmann::json& value, bool& out) {
  if (!value.is_boolean()) return false;
  out = value.get<bool>();
  return true;
}

inline bool read_json(const nlohmann::json& value, double& out) {
  if (!value.is_number()) return false;
  out = value.get<double>();
  return true;
}

inline bool read_json(const nlohmann::json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

template <class Integer>
requires std::is_integral_v<Integer>
bool read_json(const nlohmann::json& value, Integer& out) {
  if (!value.is_number_integer()) return false;
  out = value.get<Integer>();
  return value == out;
}

template <class Request>
std::string request_to_json(const Request& request) {
  nlohmann::json object;
  visit(request, [&](const char* name, const auto& value) { object[name] = value; });
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `what` names the request in errors.
template <class Request>
Result<Request> request_from_json(const std::string& text, const char* what) {
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, false);
  if (!object.is_object()) return Error{ErrorCode::kInternal, fmt::format("{}: not a JSON object", what), {}};
  Request request;
  std::string problem;
  std::size_t known = 0;
  visit(request, [&](const char* name, auto& value) {
    const auto found = object.find(name);
    if (found == object.end())
      problem = fmt::format("the key `{}` is missing", name);
    else if (!read_json(*found, value))
      problem = fmt::format("the key `{}` has the wrong type", name);
    else
      ++known;
  });
  if (problem.empty() && known != object.size()) problem = "a key is unknown";
  if (!problem.empty()) return Error{ErrorCode::kInternal, fmt::format("{}: {}", what, problem), {}};
  return request;
}

}  // namespace llmtrain
