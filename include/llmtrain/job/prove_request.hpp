#pragma once

#include <string>

#include "llmtrain/core/result.hpp"

// What `llmtrain prove` asks of the engine: a job small enough to be run twice here, and the job it stands
// for.
//
// Executable and engine come from one build, so the text has no version (engine_abi.hpp guards it).
namespace llmtrain {

struct ProveRequest {
  std::string spec_yaml;      // shrunk and resolved: what is run (shrink_job.hpp)
  std::string original_yaml;  // resolved: what the user asked about
  std::string plant;          // name of the bug to plant (plants.hpp); empty = none
  bool json = false;
};

std::string to_json(const ProveRequest& request);

// A missing, unknown or mistyped key is an error.
Result<ProveRequest> prove_request_from_json(const std::string& text);

}  // namespace llmtrain
