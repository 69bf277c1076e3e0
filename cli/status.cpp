#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/report/run_status.hpp"

#include "commands.hpp"
#include "job_arguments.hpp"
#include "run_records.hpp"

// `llmtrain status RUN`: where a run stands, live or dead. Reads its directory and changes nothing.
namespace llmtrain::cli {
namespace {

struct StatusOptions {
  std::string run_dir;
  bool json = false;
  bool watch = false;
};

constexpr std::chrono::seconds kWatchPeriod{2};

void print_status(const StatusOptions& options, const RunStatus& status) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  if (options.json)
    fmt::print("{}", status_json(status, options.watch ? -1 : 1));
  else
    fmt::print("{}{}", options.watch && terminal ? "\x1b[H\x1b[2J" : "", status_text(status, unix_now()));
  if (options.watch && !options.json && !terminal) fmt::print("\n");
  std::fflush(stdout);
}

int run_status(const StatusOptions& options) {
  const auto files = make_posix_filesystem();
  const RunDir run(options.run_dir);
  while (true) {
    if (const auto found = check_run_dir(options.run_dir); !found)
      return report_error("status", found.error());
    const auto status = read_status(*files, run, is_live(*files, run));
    if (!status) return report_error("status", status.error());
    print_status(options, *status);
    if (!options.watch || !status->live || std::ferror(stdout) != 0) return to_int(ExitCode::kDone);
    std::this_thread::sleep_for(kWatchPeriod);
  }
}

}  // namespace

void add_status(CLI::App& app, Runner& run) {
  auto options = std::make_shared<StatusOptions>();
  auto* const command =
      app.add_subcommand("status", "Say where a run stands: state, step, rate, ranks, checkpoint, incident");
  command->add_option("run", options->run_dir, "Run directory (run.dir of the job)")->required();
  command->add_flag("--json", options->json, "Print JSON; with --watch one line each time");
  command->add_flag("--watch", options->watch, "Print again every two seconds, until the launch ends");
  command->footer("Example: llmtrain status runs/quickstart --watch");
  command->callback([options, &run] { run = [options] { return run_status(*options); }; });
}

}  // namespace llmtrain::cli
