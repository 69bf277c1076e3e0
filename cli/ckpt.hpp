#pragma once

#include <cstdint>
#include <string>

#include "llmtrain/core/result.hpp"

#include "bytes_text.hpp"
#include "commands.hpp"

// What the subcommands of `llmtrain ckpt` share. Each takes a run directory or a step directory.
namespace llmtrain::cli {

void add_ckpt_ls(CLI::App& group, Runner& run);
void add_ckpt_verify(CLI::App& group, Runner& run);
void add_ckpt_diff(CLI::App& group, Runner& run);
void add_ckpt_show(CLI::App& group, Runner& run);

// Prints the error to stderr; returns the process exit code.
int fail_ckpt(const Error& error);

std::string time_text(std::int64_t unix_seconds);  // "2026-11-30 10:00:00Z"

}  // namespace llmtrain::cli
