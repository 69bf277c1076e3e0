#pragma once

#include <string>
#include <vector>

#include "commands.hpp"

// The subcommands of `llmtrain data`, and what they share.
namespace llmtrain::cli {

void add_data_inspect(CLI::App& data, Runner& run);
void add_data_prepare(CLI::App& data, Runner& run);
void add_data_train_tokenizer(CLI::App& data, Runner& run);

// A leading `~` becomes the home directory, also where no shell did it (`--out=~/x`).
std::string expand_home(const std::string& path);
std::vector<std::string> expand_home(const std::vector<std::string>& paths);

// Threads to work with: the processors this process may use.
int available_threads();

}  // namespace llmtrain::cli
