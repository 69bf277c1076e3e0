#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llmtrain/job/load_job.hpp"

namespace CLI {
class App;
}

// How every command takes a job: files, `--set a.b=c`, and what it needs of the environment; and how it says
// what is wrong with it. Results go to stdout, diagnostics to stderr.
namespace llmtrain::cli {

struct JobArguments {
  std::vector<std::string> files;  // JOB..., or one RUN_DIR where the command allows it
  std::vector<std::string> overrides;
  std::optional<int> procs_per_node;  // set by commands that offer --nproc-per-node
};

// Adds the positional JOB and `--set`.
void add_job_arguments(CLI::App& command,
                       JobArguments& arguments,
                       const char* what = "Job file; several merge left to right");
// Adds only `--set`, for commands that take a run directory.
void add_set_option(CLI::App& command, JobArguments& arguments);
void add_nproc_option(CLI::App& command, JobArguments& arguments);

// With the process environment, the home directory, and ${env:X} filled in.
JobSource job_source(const JobArguments& arguments, MissingData missing_data);

// One line for each, on stderr.
void print_diagnostics(const std::vector<Diagnostic>& diagnostics);
// "llmtrain <command>: <message>" on stderr; returns the exit code of the error's kind.
int report_error(const char* command, const Error& error);

}  // namespace llmtrain::cli
