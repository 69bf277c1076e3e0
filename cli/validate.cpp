#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/spec/write.hpp"

#include "commands.hpp"
#include "job_arguments.hpp"
#include "layout_report.hpp"

// `llmtrain validate JOB`: what a job resolves to, or everything that is wrong with it. Needs no device,
// no data and no libtorch.
namespace llmtrain::cli {
namespace {

struct ValidateOptions {
  JobArguments job;
  bool json = false;
};

YamlNode violation(const Diagnostic& diagnostic) {
  YamlNode node = map_node();
  put(node, "level", scalar_node(diagnostic.level == DiagnosticLevel::kError ? "error" : "warning", true));
  put(node, "source", scalar_node(diagnostic.origin.source ? *diagnostic.origin.source : "", true));
  put(node, "line", scalar_node(std::to_string(diagnostic.origin.line)));
  put(node, "column", scalar_node(std::to_string(diagnostic.origin.column)));
  put(node, "field", scalar_node(diagnostic.path, true));
  put(node, "message", scalar_node(diagnostic.message, true));
  return node;
}

std::optional<LayoutReport> report_of(const JobReport& report) {
  if (!report.job) return std::nullopt;
  return layout_report(report.job->spec);
}

// {"valid": ..., "spec": ... or null, "rank": ... or null, "pipeline": ... or null, "diagnostics": [...]}
std::string as_json(const JobReport& report) {
  YamlNode root = map_node();
  put(root, "valid", scalar_node(report.job ? "true" : "false"));
  put(root, "spec", report.job ? to_tree(report.job->spec) : YamlNode{});
  const std::optional<LayoutReport> layout = report_of(report);
  put(root, "rank", layout ? rank_node(*layout) : YamlNode{});
  put(root, "pipeline", layout ? pipeline_node(*layout) : YamlNode{});
  YamlNode list = list_node();
  for (const Diagnostic& diagnostic : report.diagnostics) list.items.push_back(violation(diagnostic));
  put(root, "diagnostics", std::move(list));
  return to_json(root);
}

int run_validate(const ValidateOptions& options) {
  const JobReport report = check_job(job_source(options.job, MissingData::kWarn));
  print_diagnostics(report.diagnostics);
  if (options.json) {
    fmt::print("{}", as_json(report));
  } else if (report.job) {
    fmt::print("{}{}", to_comments(*report_of(report)), report.job->resolved_yaml);
  }
  return to_int(report.job ? ExitCode::kDone : ExitCode::kUsage);
}

}  // namespace

void add_validate(CLI::App& app, Runner& run) {
  auto options = std::make_shared<ValidateOptions>();
  auto* const command = app.add_subcommand("validate", "Check a job and print what it resolves to");
  add_job_arguments(*command, options->job);
  add_nproc_option(*command, options->job);
  command->add_flag("--json", options->json, "Print the result and every diagnostic as JSON");
  command->callback([options, &run] { run = [options] { return run_validate(*options); }; });
}

}  // namespace llmtrain::cli
