#include <CLI/CLI.hpp>

#include "llmtrain/core/exit_code.hpp"

#include "commands.hpp"

using namespace llmtrain;

int main(int argc, char** argv) {
  CLI::App app("Train language models in parallel from one YAML job spec.", "llmtrain");
  app.require_subcommand(1);
  app.set_version_flag("--version", LLMTRAIN_VERSION);
  cli::Runner run;
  cli::add_data(app, run);
  cli::add_validate(app, run);
  cli::add_schema(app, run);
  cli::add_schedule(app, run);
  cli::add_prove(app, run);
  cli::add_launch(app, run);
  cli::add_resume(app, run);
  cli::add_status(app, run);
  cli::add_report(app, run);
  cli::add_doctor(app, run);
  cli::add_ckpt(app, run);
  cli::add_eval(app, run);
  cli::add_generate(app, run);
  cli::add_submit(app, run);
  cli::add_worker(app, run);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? to_int(ExitCode::kDone) : to_int(ExitCode::kUsage);
  }
  return run ? run() : to_int(ExitCode::kUsage);
}
