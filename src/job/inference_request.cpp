#include "llmtrain/job/inference_request.hpp"

#include <concepts>

#include "request_json.hpp"

namespace llmtrain {

template <class Request, class Visitor>
requires std::same_as<std::remove_const_t<Request>, EvalRequest>
void visit(Request& request, Visitor&& field) {
  field("step_dir", request.step_dir);
  field("data", request.data);
  field("tokenizer", request.tokenizer);
  field("json", request.json);
  field("threads", request.threads);
}

template <class Request, class Visitor>
requires std::same_as<std::remove_const_t<Request>, GenerateRequest>
void visit(Request& request, Visitor&& field) {
  field("step_dir", request.step_dir);
  field("tokenizer", request.tokenizer);
  field("prompt", request.prompt);
  field("max_tokens", request.max_tokens);
  field("temperature", request.temperature);
  field("top_k", request.top_k);
  field("top_p", request.top_p);
  field("seed", request.seed);
  field("json", request.json);
  field("threads", request.threads);
}

std::string to_json(const EvalRequest& request) {
  return request_to_json(request);
}

std::string to_json(const GenerateRequest& request) {
  return request_to_json(request);
}

Result<EvalRequest> eval_request_from_json(const std::string& text) {
  return request_from_json<EvalRequest>(text, "eval request");
}

Result<GenerateRequest> generate_request_from_json(const std::string& text) {
  return request_from_json<GenerateRequest>(text, "generate request");
}

}  // namespace llmtrain
