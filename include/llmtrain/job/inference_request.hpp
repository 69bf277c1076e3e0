#pragma once

#include <cstdint>
#include <string>

#include "llmtrain/core/result.hpp"

// What `llmtrain eval` and `llmtrain generate` ask of the engine: one process, one checkpoint, no run.
//
// Executable and engine come from one build, so the text has no version (engine_abi.hpp guards it).
namespace llmtrain {

struct EvalRequest {
  std::string step_dir;
  std::string data;       // token files, a directory of them, or a text file (.txt, .jsonl)
  std::string tokenizer;  // for text; empty = the one in the checkpoint
  bool json = false;
  int threads = 0;  // 0 = all usable cores
};

struct GenerateRequest {
  std::string step_dir;
  std::string tokenizer;  // empty = the one in the checkpoint
  std::string prompt;     // any bytes
  std::int64_t max_tokens = 100;
  double temperature = 0.8;
  int top_k = 0;
  double top_p = 1.0;
  std::uint64_t seed = 0;
  bool json = false;
  int threads = 0;
};

std::string to_json(const EvalRequest& request);
std::string to_json(const GenerateRequest& request);

// A missing, unknown or mistyped key is an error.
Result<EvalRequest> eval_request_from_json(const std::string& text);
Result<GenerateRequest> generate_request_from_json(const std::string& text);

}  // namespace llmtrain
