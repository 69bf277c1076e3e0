#pragma once

#include <functional>

namespace CLI {
class App;
}

// One function per subcommand: it declares the options and, when the subcommand is chosen, sets `run`.
// Each lives in the file of its name. `run` returns the process exit code.
namespace llmtrain::cli {

using Runner = std::function<int()>;

void add_data(CLI::App& app, Runner& run);
void add_ckpt(CLI::App& app, Runner& run);
void add_schedule(CLI::App& app, Runner& run);
void add_schema(CLI::App& app, Runner& run);
void add_validate(CLI::App& app, Runner& run);
void add_prove(CLI::App& app, Runner& run);
void add_launch(CLI::App& app, Runner& run);
void add_resume(CLI::App& app, Runner& run);
void add_status(CLI::App& app, Runner& run);
void add_report(CLI::App& app, Runner& run);
void add_doctor(CLI::App& app, Runner& run);
void add_eval(CLI::App& app, Runner& run);
void add_generate(CLI::App& app, Runner& run);
void add_submit(CLI::App& app, Runner& run);
void add_worker(CLI::App& app, Runner& run);

}  // namespace llmtrain::cli
