#include <cstdlib>

#include <sched.h>

#include <CLI/CLI.hpp>

#include "data_commands.hpp"

// `llmtrain data …`: from text to token files, and a look inside them.
namespace llmtrain::cli {

void add_data(CLI::App& app, Runner& run) {
  auto* const data = app.add_subcommand("data", "Make tokenizers and token files, and look inside");
  data->require_subcommand(1);
  add_data_prepare(*data, run);
  add_data_train_tokenizer(*data, run);
  add_data_inspect(*data, run);
}

std::string expand_home(const std::string& path) {
  const bool home_path = path == "~" || path.starts_with("~/");
  const char* home = std::getenv("HOME");
  return home_path && home != nullptr ? home + path.substr(1) : path;
}

std::vector<std::string> expand_home(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) expanded.push_back(expand_home(path));
  return expanded;
}

int available_threads() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace llmtrain::cli
