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

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value *= 1e-3;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, kUnits[unit]);
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
