#include <charconv>
#include <cstdint>

#include <fmt/format.h>

#include "llmtrain/discovery/tee.hpp"

#include "placement_source.hpp"

namespace llmtrain {
namespace {

Error refuse(const std::string& origin, std::string_view text, const std::string& allowed) {
  return {ErrorCode::kUsage,
          fmt::format("{} = \"{}\": not understood; allowed: {}", origin, text.substr(0, 200), allowed),
          ""};
}

std::optional<std::int64_t> digits(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.size() > 9 || text.front() == '-' || error != std::errc() ||
      end != text.data() + text.size())
    return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// [D-]HH:MM[:SS] and MM:SS as Slurm reads them: without days, two parts are minutes and seconds.
std::optional<double> clock_span(std::string_view text) {
  std::int64_t days = 0;
  const std::size_t dash = text.find('-');
  const bool has_days = dash != std::string_view::npos;
  if (has_days) {
    const auto value = digits(text.substr(0, dash));
    if (!value) return std::nullopt;
    days = *value;
    text.remove_prefix(dash + 1);
  }
  std::vector<std::int64_t> parts;
  for (const std::string_view part : split(text, ':')) {
    const auto value = digits(part);
    if (!value || parts.size() == 3) return std::nullopt;
    parts.push_back(*value);
  }
  if (has_days) {  // hours first
    parts.resize(3, 0);
  } else if (parts.size() == 2) {
    parts.insert(parts.begin(), 0);
  }
  if (parts.size() != 3) return std::nullopt;
  return static_cast<double>(((days * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2]);
}

}  // namespace

std::optional<std::string> variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(std::string(name));
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Result<int> whole_number(std::string_view text, int low, int high, const std::string& origin) {
  const auto value = digits(text);
  if (!value || *value < low || *value > high)
    return refuse(origin, text, fmt::format("a whole number from {} to {}", low, high));
  return static_cast<int>(*value);
}

Result<MaybeStated<int>> number_of(const Environment& environment, std::string_view name, int low, int high) {
  const auto text = variable(environment, name);
  if (!text) return MaybeStated<int>();
  LLMTRAIN_ASSIGN(value, whole_number(*text, low, high, std::string(name)));
  return MaybeStated<int>(Stated<int>{value, std::string(name)});
}

Result<NodeRange> node_range(std::string_view text, const std::string& origin) {
  const auto parts = split(text, ':');
  const auto low = digits(parts.front());
  const auto high = digits(parts.back());
  if (parts.size() > 2 || !low || !high || *low < 1 || *high < *low || *high > kMaxNodes)
    return refuse(origin,
                  text,
                  fmt::format("N, or MIN:MAX with 1 <= MIN <= MAX <= {}; for example 4, or 3:4 for one spare",
                              kMaxNodes));
  return NodeRange{static_cast<int>(*low), static_cast<int>(*high)};
}

Result<double> time_span(std::string_view text, const std::string& origin) {
  constexpr std::string_view kAllowed = "30m, 2h, 1d, seconds such as 5400, or HH:MM:SS and D-HH:MM:SS";
  std::optional<double> seconds;
  if (text.find_first_of(":-") != std::string_view::npos) {
    seconds = clock_span(text);
  } else if (!text.empty()) {
    const char unit = text.back();
    const double factor = unit == 'm' ? 60 : unit == 'h' ? 3600 : unit == 'd' ? 86'400 : 1;
    const bool has_unit = unit == 's' || factor > 1;
    if (const auto value = digits(text.substr(0, text.size() - (has_unit ? 1 : 0))))
      seconds = static_cast<double>(*value) * factor;
  }
  if (!seconds || *seconds <= 0) return refuse(origin, text, std::string(kAllowed));
  return *seconds;
}

Result<std::string> tee_choice(std::string_view text, const std::string& origin) {
  const std::string allowed = "0 (none), 1 (stdout), 2 (stderr), 3 (both), or by local rank: 0:3,1:2";
  if (!Tee::parse(text)) return refuse(origin, text, allowed);
  return std::string(text);
}

}  // namespace llmtrain
