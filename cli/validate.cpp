#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/sizing/rank_costs.hpp"
#include "llmtrain/spec/write.hpp"

#include "bytes_text.hpp"
#include "commands.hpp"
#include "job_arguments.hpp"

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

YamlNode traffic_node(const Traffic& traffic) {
  YamlNode node = map_node();
  put(node, "calls", scalar_node(std::to_string(traffic.calls)));
  put(node, "bytes", scalar_node(std::to_string(traffic.bytes)));
  return node;
}

// Bytes that a rank holds, and what it gives to its data-parallel group in a step.
YamlNode first_rank(const JobSpec& spec) {
  const RankCosts costs = rank_costs(spec);
  YamlNode node = map_node();
  put(node, "params", scalar_node(std::to_string(costs.memory.params)));
  put(node, "grads", scalar_node(std::to_string(costs.memory.grads)));
  put(node, "optimizer", scalar_node(std::to_string(costs.memory.optimizer)));
  put(node, "all_reduce_over_copies", traffic_node(costs.step.copies));
  put(node, "all_reduce", traffic_node(costs.step.all_reduce));
  put(node, "reduce_scatter", traffic_node(costs.step.reduce_scatter));
  put(node, "all_gather", traffic_node(costs.step.all_gather));
  return node;
}

// The same as comments, so that what is printed is still a spec.
std::string first_rank_comment(const JobSpec& spec) {
  const auto text = [](std::int64_t bytes) { return bytes_text(static_cast<std::uint64_t>(bytes)); };
  const RankCosts costs = rank_costs(spec);
  std::string comment =
      fmt::format("# a rank holds, without activations: params {}, grads {}, optimizer {}\n",
                  text(costs.memory.params),
                  text(costs.memory.grads),
                  text(costs.memory.optimizer));
  if (costs.step != ShardTraffic{})
    comment += fmt::format(
        "# a rank gives to its data-parallel group in a step: all_reduce {}, reduce_scatter {}, all_gather "
        "{}\n",
        text(costs.step.copies.bytes + costs.step.all_reduce.bytes),
        text(costs.step.reduce_scatter.bytes),
        text(costs.step.all_gather.bytes));
  return comment;
}

// {"valid": ..., "spec": ... or null, "rank": ... or null, "diagnostics": [...]}
std::string as_json(const JobReport& report) {
  YamlNode root = map_node();
  put(root, "valid", scalar_node(report.job ? "true" : "false"));
  put(root, "spec", report.job ? to_tree(report.job->spec) : YamlNode{});
  put(root, "rank", report.job ? first_rank(report.job->spec) : YamlNode{});
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
    fmt::print("{}{}", first_rank_comment(report.job->spec), report.job->resolved_yaml);
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
