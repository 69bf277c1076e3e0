#include "ckpt.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"

namespace llmtrain::cli {

int fail_ckpt(const Error& error) {
  fmt::print(stderr, "llmtrain ckpt: {}\n", to_string(error));
  return to_int(exit_code_for(error.code));
}

std::string time_text(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  std::array<char, 32> text{};
  if (!::gmtime_r(&time, &parts) ||
      std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%SZ", &parts) == 0)
    return "?";
  return text.data();
}

void add_ckpt(CLI::App& app, Runner& run) {
  auto* const group = app.add_subcommand("ckpt", "List, verify, compare and show checkpoints");
  group->require_subcommand(1);
  add_ckpt_ls(*group, run);
  add_ckpt_verify(*group, run);
  add_ckpt_diff(*group, run);
  add_ckpt_show(*group, run);
}

}  // namespace llmtrain::cli
