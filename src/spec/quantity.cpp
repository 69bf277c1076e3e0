#include "llmtrain/spec/quantity.hpp"

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/spec/scalars.hpp"

namespace llmtrain {
namespace {

constexpr const char* kAllowed =
    "allowed: a whole number of steps (2000, `2000 steps`), `100B tokens`, `1M samples` or `10%`; "
    "K, M, B and T are powers of a thousand";
constexpr double kLargest = 9007199254740992.0;  // 2^53: above it a double skips whole numbers

constexpr std::array<std::pair<std::string_view, Quantity::Unit>, 9> kUnits = {{
    {"", Quantity::Unit::kSteps},
    {"step", Quantity::Unit::kSteps},
    {"steps", Quantity::Unit::kSteps},
    {"token", Quantity::Unit::kTokens},
    {"tokens", Quantity::Unit::kTokens},
    {"sample", Quantity::Unit::kSamples},
    {"samples", Quantity::Unit::kSamples},
    {"%", Quantity::Unit::kPercent},
    {"percent", Quantity::Unit::kPercent},
}};

constexpr std::array<std::pair<char, double>, 5> kMultipliers = {
    {{'T', 1e12}, {'B', 1e9}, {'M', 1e6}, {'K', 1e3}, {'k', 1e3}}};

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Splits "100B tokens" into a number with its multiplier and the unit's word.
std::pair<std::string_view, std::string_view> split_unit(std::string_view text) {
  std::size_t at = text.find(' ');
  if (at == std::string_view::npos && text.ends_with('%')) at = text.size() - 1;
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), trim(text.substr(at))};
}

Error refused(const std::string& text, const char* why) {
  return {ErrorCode::kInvalidSpec, fmt::format("`{}` {}", text, why), kAllowed};
}

}  // namespace

Result<Quantity> parse_quantity(const std::string& text) {
  auto [number, word] = split_unit(trim(text));
  double multiplier = 1;
  for (const auto& [letter, factor] : kMultipliers)
    if (number.ends_with(letter)) multiplier = factor;
  if (multiplier != 1) number.remove_suffix(1);

  Quantity quantity;
  const auto* unit = kUnits.begin();
  while (unit != kUnits.end() && unit->first != word) ++unit;
  if (unit == kUnits.end()) return refused(text, "has an unknown unit");
  quantity.unit = unit->second;

  const ScalarFault fault = parse_scalar(number, quantity.amount);
  if (fault == ScalarFault::kMalformed) return refused(text, "is not an amount");
  quantity.amount *= multiplier;
  if (quantity.amount < 0 || std::signbit(quantity.amount)) return refused(text, "is negative");
  if (quantity.unit == Quantity::Unit::kPercent) {
    if (multiplier != 1) return refused(text, "is not an amount");
    if (fault != ScalarFault::kNone || quantity.amount > 100) return refused(text, "is more than 100%");
    return quantity;
  }
  if (fault != ScalarFault::kNone || quantity.amount > kLargest)
    return refused(text, "is too large (at most 2^53)");
  if (quantity.amount != std::trunc(quantity.amount)) return refused(text, "is not a whole number");
  return quantity;
}

std::string to_string(const Quantity& quantity) {
  if (quantity.unit == Quantity::Unit::kPercent) return format_number(quantity.amount) + "%";
  std::string number;
  const bool countable = quantity.unit != Quantity::Unit::kSteps && quantity.amount > 0;
  for (const auto& [letter, factor] : kMultipliers) {
    if (!countable || letter == 'k' || std::fmod(quantity.amount, factor) != 0) continue;
    number = fmt::format("{}{}", static_cast<std::int64_t>(quantity.amount / factor), letter);
    break;
  }
  if (number.empty()) number = fmt::format("{}", static_cast<std::int64_t>(quantity.amount));
  switch (quantity.unit) {
    case Quantity::Unit::kSteps: return number + " steps";
    case Quantity::Unit::kTokens: return number + " tokens";
    case Quantity::Unit::kSamples: return number + " samples";
    case Quantity::Unit::kPercent: break;
  }
  return number;
}

}  // namespace llmtrain
