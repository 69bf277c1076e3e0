#include "llmtrain/job/worker_request.hpp"

#include <concepts>

#include "request_json.hpp"

namespace llmtrain {

// The one list of fields: reading and writing walk it.
template <class Request, class Visitor>
requires std::same_as<std::remove_const_t<Request>, WorkerRequest>
void visit(Request& request, Visitor&& field) {
  field("rank", request.rank);
  field("local_rank", request.local_rank);
  field("world_size", request.world_size);
  field("node", request.node);
  field("incarnation", request.incarnation);
  field("epoch", request.epoch);
  field("spec_yaml", request.spec_yaml);
  field("run_dir", request.run_dir);
  field("resume_path", request.resume_path);
  field("engine_path", request.engine_path);
  field("control_fd", request.control_fd);
  field("black_box_fd", request.black_box_fd);
  field("shm_fd", request.shm_fd);
  field("store_fd", request.store_fd);
  field("address", request.address);
  field("error_file", request.error_file);
}

std::string to_json(const WorkerRequest& request) {
  return request_to_json(request);
}

Result<WorkerRequest> worker_request_from_json(const std::string& text) {
  LLMTRAIN_ASSIGN(request, request_from_json<WorkerRequest>(text, "worker request"));
  if (request.rank < 0 || request.rank >= request.world_size)
    return Error{
        ErrorCode::kInternal,
        fmt::format("worker request: rank {} is outside of a world of {}", request.rank, request.world_size),
        {}};
  return request;
}

}  // namespace llmtrain
