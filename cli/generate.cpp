#include <memory>

#include <CLI/CLI.hpp>

#include "llmtrain/job/inference_request.hpp"

#include "commands.hpp"
#include "inference.hpp"

// `llmtrain generate`: text from a training checkpoint.
namespace llmtrain::cli {

void add_generate(CLI::App& app, Runner& run) {
  auto* const command = app.add_subcommand("generate",
                                           "Continue a prompt with a training checkpoint and its tokenizer\n"
                                           "Example: llmtrain generate --checkpoint runs/quickstart --prompt "
                                           "\"In the beginning\" --max-tokens 60");
  auto request = std::make_shared<GenerateRequest>();
  auto target = std::make_shared<InferenceTarget>();
  add_inference_options(*command, *target);
  command->add_option("--prompt", request->prompt, "Text to continue")->required();
  command->add_option("--tokenizer", request->tokenizer, "Default: the one in the checkpoint");
  command->add_option("--max-tokens", request->max_tokens, "Tokens to add at most")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->capture_default_str();
  command->add_option("--temperature", request->temperature, "0 takes the most likely token each time")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--top-k", request->top_k, "Keep the k most likely tokens; 0 keeps all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--top-p", request->top_p, "Keep the most likely tokens that hold this probability")
      ->check(CLI::Range(1e-6, 1.0))
      ->capture_default_str();
  command->add_option("--seed", request->seed, "The same seed draws the same text")->capture_default_str();
  command->add_flag("--json", request->json, "Print one JSON object");
  command->callback([request, target, &run] {
    run = [request, target] { return run_inference("generate", *target, *request); };
  });
}

}  // namespace llmtrain::cli
