#include "job_arguments.hpp"

#include <cstdio>
#include <string_view>

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"

namespace llmtrain::cli {

void add_set_option(CLI::App& command, JobArguments& arguments) {
  // One value an occurrence, never split: values are YAML and hold commas, brackets and spaces.
  command
      .add_option("--set", arguments.overrides, "Override a field, e.g. --set optimizer.lr=1e-4 (repeatable)")
      ->type_name("FIELD=VALUE")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
}

void add_job_arguments(CLI::App& command, JobArguments& arguments, const char* what) {
  command.add_option("job", arguments.files, what)->type_name("JOB")->required();
  add_set_option(command, arguments);
}

void add_nproc_option(CLI::App& command, JobArguments& arguments) {
  command
      .add_option("--nproc-per-node",
                  arguments.procs_per_node,
                  "Ranks on this node; wins over the job's launch.procs_per_node")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
}

JobSource job_source(const JobArguments& arguments, MissingData missing_data) {
  JobSource source;
  source.files = arguments.files;
  source.overrides = arguments.overrides;
  source.procs_per_node = arguments.procs_per_node;
  source.missing_data = missing_data;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) source.env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  if (const auto home = source.env.find("HOME"); home != source.env.end()) source.home = home->second;
  return source;
}

void print_diagnostics(const std::vector<Diagnostic>& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics) fmt::print(stderr, "{}\n", diagnostic.text());
}

int report_error(const char* command, const Error& error) {
  fmt::print(stderr, "llmtrain {}: {}\n", command, to_string(error));
  return to_int(exit_code_for(error.code));
}

}  // namespace llmtrain::cli
