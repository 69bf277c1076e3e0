#include "llmtrain/spec/schema.hpp"

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"

#include "commands.hpp"

// `llmtrain schema`: the job spec described, for editors and for people.
namespace llmtrain::cli {

void add_schema(CLI::App& app, Runner& run) {
  auto markdown = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  auto* const command = app.add_subcommand("schema", "Print the JSON schema of a job file");
  auto* const markdown_flag =
      command->add_flag("--markdown", *markdown, "Print the reference page (docs/JOB_SPEC.md) instead");
  command->add_flag("--json", *json, "Print the JSON schema (the default)")->excludes(markdown_flag);
  command->callback([markdown, json, &run] {
    run = [markdown] {
      fmt::print("{}", *markdown ? markdown_reference() : json_schema());
      return to_int(ExitCode::kDone);
    };
  });
}

}  // namespace llmtrain::cli
