#pragma once

#include <string>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/inference_request.hpp"

#include "engine.hpp"

namespace CLI {
class App;
}

// What `eval` and `generate` have in common: a checkpoint, and an engine to load it into.
namespace llmtrain::cli {

struct InferenceTarget {
  std::string checkpoint;  // run directory (its newest checkpoint) or step directory
  std::string engine;
  int threads = 0;
};

void add_inference_options(CLI::App& command, InferenceTarget& target);

// Prints the error and returns its exit code.
int fail_inference(const std::string& command, const Error& error);

// Finds the checkpoint and hands the request to the engine.
template <class Request>
int run_inference(const std::string& command, const InferenceTarget& target, Request request) {
  const auto files = make_posix_filesystem();
  auto step_dir = resolve_step_directory(*files, target.checkpoint);
  if (!step_dir) return fail_inference(command, step_dir.error());
  const auto path = find_engine(target.engine);
  if (!path) return fail_inference(command, path.error());
  const auto engine = Engine::open(*path);
  if (!engine) return fail_inference(command, engine.error());
  request.step_dir = *step_dir;
  request.threads = target.threads;
  return engine->run(command, to_json(request));
}

}  // namespace llmtrain::cli
