#include "llmtrain/data/blend.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

constexpr int kShareBits = 62;
constexpr std::int64_t kNever = std::int64_t{1} << 61;  // more draws than any run makes

Status check_entry(const BlendEntry& entry) {
  if (!(entry.weight > 0) || !std::isfinite(entry.weight)) {
    return Error{
        ErrorCode::kInvalidSpec,
        fmt::format("{}: weight {} is not allowed; weights are positive numbers", entry.name, entry.weight),
        "remove the source, or give it a weight above 0"};
  }
  if (entry.limit && *entry.limit < 1) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("{}: max_epochs leaves no sample of it", entry.name),
                 "raise max_epochs, or remove the source"};
  }
  return ok_status();
}

}  // namespace

// Joins the two lightest trees until one is left (Huffman): heavy sources end near the root, where
// rounding is least, and no inner node holds more than two thirds of its parent.
std::vector<Blend::Node> Blend::make_tree(const std::vector<BlendEntry>& entries,
                                          const std::vector<int>& live) {
  std::vector<Node> nodes;
  std::vector<int> roots;
  for (const int source : live) {
    roots.push_back(static_cast<int>(nodes.size()));
    nodes.push_back({.source = source, .weight = entries[source].weight});
  }
  while (roots.size() > 1) {
    // Heaviest first; the earlier node wins a tie and so stays in front.
    std::stable_sort(
        roots.begin(), roots.end(), [&](int a, int b) { return nodes[a].weight > nodes[b].weight; });
    const int left = roots.back();
    const int right = roots[roots.size() - 2];
    roots.resize(roots.size() - 2);
    const double sum = nodes[left].weight + nodes[right].weight;
    const double share = std::ldexp(nodes[right].weight / sum, kShareBits);
    roots.push_back(static_cast<int>(nodes.size()));
    nodes.push_back(
        {.left = left, .right = right, .weight = sum, .share = static_cast<std::uint64_t>(share)});
  }
  return nodes;
}

// Of the first n draws of a node, how many go right: n * share, rounded half up.
std::int64_t Blend::count_right(const Node& node, std::int64_t n) {
  const auto product = static_cast<unsigned __int128>(n) * node.share;
  return static_cast<std::int64_t>((product + (std::uint64_t{1} << (kShareBits - 1))) >> kShareBits);
}

void Blend::count_all(const Phase& phase, int node, std::int64_t n, std::vector<std::int64_t>& counts) {
  const Node& at = phase.nodes[node];
  if (at.source >= 0) {
    counts[at.source] += n;
    return;
  }
  const std::int64_t right = count_right(at, n);
  count_all(phase, at.left, n - right, counts);
  count_all(phase, at.right, right, counts);
}

// How many draws of this phase it takes until the first of its sources reaches its limit.
std::int64_t Blend::exhausted_after(const std::vector<BlendEntry>& entries, const Phase& phase) {
  const auto full = [&](std::int64_t n) {
    auto counts = phase.base;
    count_all(phase, static_cast<int>(phase.nodes.size()) - 1, n, counts);
    return std::any_of(phase.nodes.begin(), phase.nodes.end(), [&](const Node& node) {
      return node.source >= 0 && entries[node.source].limit &&
             counts[node.source] >= *entries[node.source].limit;
    });
  };
  std::int64_t high = 1;
  while (high < kNever && !full(high)) high *= 2;
  if (high >= kNever) return kNever;
  std::int64_t low = 0;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (full(middle) ? high : low) = middle;
  }
  return high;
}

Result<Blend> Blend::make(std::vector<BlendEntry> entries) {
  if (entries.empty())
    return Error{ErrorCode::kInvalidSpec, "a blend of no sources", "name at least one source"};
  std::vector<int> live;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    LLMTRAIN_TRY(check_entry(entries[i]));
    live.push_back(static_cast<int>(i));
  }
  Blend blend;
  std::vector<std::int64_t> base(entries.size(), 0);
  std::int64_t begin = 0;
  while (!live.empty()) {
    blend.phases_.push_back({begin, base, make_tree(entries, live)});
    const Phase& phase = blend.phases_.back();
    const std::int64_t length = exhausted_after(entries, phase);
    if (length >= kNever) return blend;
    count_all(phase, static_cast<int>(phase.nodes.size()) - 1, length, base);
    begin += length;
    std::erase_if(live, [&](int i) { return entries[i].limit && base[i] >= *entries[i].limit; });
  }
  blend.size_ = begin;
  return blend;
}

const Blend::Phase& Blend::phase_of(std::int64_t draw) const {
  const auto after =
      std::upper_bound(phases_.begin(), phases_.end(), draw, [](std::int64_t value, const Phase& phase) {
        return value < phase.begin;
      });
  return *std::prev(after);
}

Blend::Draw Blend::at(std::int64_t draw) const {
  LLMTRAIN_CHECK(draw >= 0 && (!size_ || draw < *size_), "draw {} of {}", draw, size_.value_or(-1));
  const Phase& phase = phase_of(draw);
  std::int64_t n = draw - phase.begin;
  const Node* node = &phase.nodes.back();
  while (node->source < 0) {
    const std::int64_t right = count_right(*node, n);
    const bool goes_right = count_right(*node, n + 1) > right;
    n = goes_right ? right : n - right;
    node = &phase.nodes[goes_right ? node->right : node->left];
  }
  return {node->source, phase.base[node->source] + n};
}

std::int64_t Blend::count(std::int64_t draws, int source) const {
  LLMTRAIN_CHECK(draws >= 0 && (!size_ || draws <= *size_), "{} draws of {}", draws, size_.value_or(-1));
  const Phase& phase = phase_of(draws == 0 ? 0 : draws - 1);
  auto counts = phase.base;
  count_all(phase, static_cast<int>(phase.nodes.size()) - 1, draws - phase.begin, counts);
  return counts[source];
}

}  // namespace llmtrain
