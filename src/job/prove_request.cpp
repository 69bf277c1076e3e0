#include "llmtrain/job/prove_request.hpp"

#include <concepts>

#include "request_json.hpp"

namespace llmtrain {

template <class Request, class Visitor>
requires std::same_as<std::remove_const_t<Request>, ProveRequest>
void visit(Request& request, Visitor&& field) {
  field("spec_yaml", request.spec_yaml);
  field("original_yaml", request.original_yaml);
  field("plant", request.plant);
  field("json", request.json);
}

std::string to_json(const ProveRequest& request) {
  return request_to_json(request);
}

Result<ProveRequest> prove_request_from_json(const std::string& text) {
  return request_from_json<ProveRequest>(text, "prove request");
}

}  // namespace llmtrain
