#pragma once

#include <string>

// The engine's side of `llmtrain eval` and `llmtrain generate`: requests in (job/inference_request.hpp),
// results to stdout, exit codes back. Like run_worker they throw nothing.
namespace llmtrain {

int run_eval(const std::string& request_json);
int run_generate(const std::string& request_json);

}  // namespace llmtrain
