#include "inference.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace llmtrain::cli {

void add_inference_options(CLI::App& command, InferenceTarget& target) {
  command
      .add_option(
          "--checkpoint", target.checkpoint, "Run directory (its newest checkpoint) or step directory")
      ->required();
  command.add_option("--engine", target.engine, "Engine library; default: beside this executable");
  command.add_option("--threads", target.threads, "Compute threads; 0 = all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
}

int fail_inference(const std::string& command, const Error& error) {
  fmt::print(stderr, "llmtrain {}: {}\n", command, to_string(error));
  return to_int(exit_code_for(error.code));
}

}  // namespace llmtrain::cli
