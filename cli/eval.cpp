#include <memory>

#include <CLI/CLI.hpp>

#include "llmtrain/job/inference_request.hpp"

#include "commands.hpp"
#include "inference.hpp"

// `llmtrain eval`: how well a checkpoint predicts a text or a token file.
namespace llmtrain::cli {

void add_eval(CLI::App& app, Runner& run) {
  auto* const command =
      app.add_subcommand("eval",
                         "Score a checkpoint on a text or on token files: loss, perplexity, bits per byte\n"
                         "Example: llmtrain eval --checkpoint runs/quickstart --data held_out.txt");
  auto request = std::make_shared<EvalRequest>();
  auto target = std::make_shared<InferenceTarget>();
  add_inference_options(*command, *target);
  command->add_option("--data", request->data, "Token files (prefix or directory) or a .txt or .jsonl file")
      ->required();
  command->add_option("--tokenizer", request->tokenizer, "For text; default: the one in the checkpoint");
  command->add_flag("--json", request->json, "Print one JSON object");
  command->callback([request, target, &run] {
    run = [request, target] { return run_inference("eval", *target, *request); };
  });
}

}  // namespace llmtrain::cli
