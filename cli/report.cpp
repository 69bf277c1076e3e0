#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/report/html.hpp"
#include "llmtrain/report/report_text.hpp"

#include "commands.hpp"
#include "job_arguments.hpp"
#include "run_records.hpp"

// `llmtrain report RUN`: what happened in a run, as text, JSON or one HTML page.
namespace llmtrain::cli {
namespace {

struct ReportOptions {
  std::string run_dir;
  std::string html;
  bool json = false;
};

Status write_page(FileSystem& files, const std::string& path, const std::string& page) {
  LLMTRAIN_ASSIGN(file, files.create(path));
  LLMTRAIN_TRY(file->append(std::as_bytes(std::span(page))));
  return file->close();
}

int run_report(const ReportOptions& options) {
  if (const auto found = check_run_dir(options.run_dir); !found) return report_error("report", found.error());
  const auto files = make_posix_filesystem();
  const RunDir run(options.run_dir);
  HistoryOptions history_options{.started_at = incarnation_starts(run), .now = {}};
  if (is_live(*files, run)) history_options.now = unix_now();
  const auto history = read_history(*files, run, history_options);
  if (!history) return report_error("report", history.error());
  if (!options.html.empty())
    if (const auto written = write_page(*files, options.html, report_html(*history)); !written)
      return report_error("report", written.error());
  fmt::print("{}", options.json ? report_json(*history) : report_text(*history));
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_report(CLI::App& app, Runner& run) {
  auto options = std::make_shared<ReportOptions>();
  auto* const command = app.add_subcommand(
      "report", "Tell what happened in a run: incarnations, incidents, where the time went");
  command->add_option("run", options->run_dir, "Run directory (run.dir of the job)")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->add_option("--html", options->html, "Also write one self-contained page with plots")
      ->type_name("FILE");
  command->footer("Example: llmtrain report runs/quickstart --html report.html");
  command->callback([options, &run] { run = [options] { return run_report(*options); }; });
}

}  // namespace llmtrain::cli
