#include "llmtrain/job/worker_request.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmtrain {
namespace {

using nlohmann::json;

// The one list of fields: reading and writing walk it.
template <class Request, class Visitor>
void visit(Request& request, Visitor&& field) {
  field("rank", request.rank);
  field("local_rank", request.local_rank);
  field("world_size", request.world_size);
  field("node", request.node);
  field("incarnation", request.incarnation);
  field("spec_yaml", request.spec_yaml);
  field("run_dir", request.run_dir);
  field("resume_path", request.resume_path);
  field("engine_path", request.engine_path);
  field("control_fd", request.control_fd);
  field("black_box_fd", request.black_box_fd);
  field("shm_fd", request.shm_fd);
}

bool read(const json& value, int& out) {
  if (!value.is_number_integer() || value < -1 || value > 1'000'000'000) return false;
  out = value.get<int>();
  return true;
}

bool read(const json& value, std::string& out) {
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

}  // namespace

std::string to_json(const WorkerRequest& request) {
  json object;
  visit(request, [&](const char* name, const auto& value) { object[name] = value; });
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<WorkerRequest> worker_request_from_json(const std::string& text) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) return Error{ErrorCode::kInternal, "worker request: not a JSON object", {}};
  WorkerRequest request;
  std::string problem;
  std::size_t known = 0;
  visit(request, [&](const char* name, auto& value) {
    const auto found = object.find(name);
    if (found == object.end())
      problem = fmt::format("the key `{}` is missing", name);
    else if (!read(*found, value))
      problem = fmt::format("the key `{}` has the wrong type", name);
    else
      ++known;
  });
  if (problem.empty() && known != object.size()) problem = "a key is unknown";
  if (problem.empty() && (request.rank < 0 || request.rank >= request.world_size))
    problem = fmt::format("rank {} is outside of a world of {}", request.rank, request.world_size);
  if (!problem.empty()) return Error{ErrorCode::kInternal, "worker request: " + problem, {}};
  return request;
}

}  // namespace llmtrain
