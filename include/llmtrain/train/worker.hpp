#pragma once

#include <string>

namespace llmtrain {

// Runs one rank from its request (job/worker_request.hpp) to its end and returns the process exit code:
// core/exit_code.hpp or job/worker_exit.hpp. Throws nothing: this is the fence where the exceptions of
// the tensor plane become exit codes and a last word to the agent.
int run_worker(const std::string& request_json);

}  // namespace llmtrain
