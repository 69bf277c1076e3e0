#include "llmtrain/checkpoint/names.hpp"

#include <charconv>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::string_view kTemporarySuffix = ".tmp";
constexpr std::string_view kTrash = ".trash-";
constexpr std::size_t kStepDigits = 8;
constexpr std::size_t kMaxDigits = 18;  // fits an int64

// Digits only: no sign, no space, so that -2 and "+5" are not steps.
std::optional<std::int64_t> parse_digits(std::string_view text) {
  if (text.empty() || text.size() > kMaxDigits ||
      text.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string step_directory_name(std::int64_t step) {
  return fmt::format("{}{:08}", kStep, step);
}
std::string step_directory_name(std::int64_t step, std::int64_t epoch) {
  return fmt::format("{}{:08}.e{}", kStep, step, epoch);
}
std::string temporary_directory_name(std::int64_t step, std::int64_t epoch) {
  return fmt::format(".{}{}", step_directory_name(step, epoch), kTemporarySuffix);
}
std::string trash_directory_name(std::string_view name) {
  return fmt::format("{}{}", kTrash, name);
}

std::optional<StepName> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  name.remove_prefix(kStep.size());
  StepName parsed;
  if (const std::size_t dot = name.find(".e"); dot != std::string_view::npos) {
    parsed.epoch = parse_digits(name.substr(dot + 2));
    if (!parsed.epoch) return std::nullopt;
    name = name.substr(0, dot);
  }
  const auto step = parse_digits(name);
  if (!step || name.size() < kStepDigits) return std::nullopt;
  parsed.step = *step;
  return parsed;
}

std::optional<StepName> parse_temporary_name(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kTemporarySuffix)) return std::nullopt;
  name.remove_prefix(1);
  if (name.size() < kTemporarySuffix.size()) return std::nullopt;
  name.remove_suffix(kTemporarySuffix.size());
  const auto parsed = parse_step_name(name);
  return parsed && parsed->epoch ? parsed : std::nullopt;
}

bool is_trash_name(std::string_view name) {
  return name.starts_with(kTrash);
}

std::string shard_file_name(std::string_view kind, int rank, int world_size) {
  return fmt::format("{}-{:05}-of-{:05}.safetensors", kind, rank, world_size);
}

}  // namespace llmtrain
