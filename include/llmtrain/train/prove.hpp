#pragma once

#include <string>

namespace llmtrain {

// The engine's side of `llmtrain prove`: the request in (job/prove_request.hpp), the certificate to stdout; 0
// when the layout computes what one rank computes, 1 when it does not. Throws nothing.
int run_prove(const std::string& request_json);

}  // namespace llmtrain
