#include "llmtrain/spec/scalars.hpp"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace llmtrain {
namespace {

template <class T>
ScalarFault parse_whole(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  // from_chars has no minus for unsigned types: a negative number is then out of range, not malformed.
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty()) return ScalarFault::kMalformed;
  for (const char c : digits)
    if (c < '0' || c > '9') return ScalarFault::kMalformed;
  T parsed{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc{} || end != text.data() + text.size()) return ScalarFault::kOutOfRange;
  value = parsed;
  return ScalarFault::kNone;
}

}  // namespace

ScalarFault parse_scalar(std::string_view text, double& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || (digits[0] != '.' && (digits[0] < '0' || digits[0] > '9')))
    return ScalarFault::kMalformed;
  double parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (end != text.data() + text.size()) return ScalarFault::kMalformed;
  if (error == std::errc::result_out_of_range) return ScalarFault::kOutOfRange;
  if (error != std::errc{} || !std::isfinite(parsed)) return ScalarFault::kMalformed;
  value = parsed;
  return ScalarFault::kNone;
}

ScalarFault parse_scalar(std::string_view text, std::int32_t& value) {
  return parse_whole(text, value);
}
ScalarFault parse_scalar(std::string_view text, std::int64_t& value) {
  return parse_whole(text, value);
}
ScalarFault parse_scalar(std::string_view text, std::uint64_t& value) {
  return parse_whole(text, value);
}

ScalarFault parse_scalar(std::string_view text, bool& value) {
  if (text == "true" || text == "True" || text == "TRUE") {
    value = true;
    return ScalarFault::kNone;
  }
  if (text == "false" || text == "False" || text == "FALSE") {
    value = false;
    return ScalarFault::kNone;
  }
  return ScalarFault::kMalformed;
}

std::string format_number(double value) {
  constexpr double kExact = 1e15;
  if (std::abs(value) < kExact && value == std::trunc(value) && !(value == 0 && std::signbit(value)))
    return fmt::format("{}", static_cast<std::int64_t>(value));
  std::string text = fmt::format("{}", value);
  // Readers of YAML 1.1 take `1e-05` for text: they want a dot.
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

}  // namespace llmtrain
