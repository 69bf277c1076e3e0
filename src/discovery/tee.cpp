#include "llmtrain/discovery/tee.hpp"

#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr int kMaxLocalRank = 65535;

std::optional<int> number(std::string_view text, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
    return std::nullopt;
  return value;
}

}  // namespace

Result<Tee> Tee::parse(std::string_view text) {
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--tee `{}`: {}", text.substr(0, 200), what),
                 "0 = none, 1 = stdout, 2 = stderr, 3 = both; for single ranks of a node: 0:3,1:2"};
  };
  Tee tee;
  if (const auto all = number(text, 3)) {
    tee.all_ = *all;
    return tee;
  }
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const std::size_t colon = pair.find(':');
    if (colon == std::string_view::npos)
      return refuse(fmt::format("`{}` is neither 0 to 3 nor rank:number", pair));
    const auto rank = number(pair.substr(0, colon), kMaxLocalRank);
    const auto streams = number(pair.substr(colon + 1), 3);
    if (!rank || !streams) return refuse(fmt::format("`{}` is not rank:number", pair));
    if (!tee.ranks_.emplace(*rank, *streams).second) return refuse(fmt::format("rank {} comes twice", *rank));
    if (comma == std::string_view::npos) return tee;
    rest.remove_prefix(comma + 1);
  }
}

int Tee::of(int local_rank) const {
  const auto found = ranks_.find(local_rank);
  return found != ranks_.end() ? found->second : all_;
}

}  // namespace llmtrain
