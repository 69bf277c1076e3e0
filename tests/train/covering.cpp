#include "tests/train/covering.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "llmtrain/core/philox.hpp"

namespace llmtrain::test {
namespace {

constexpr int kCandidates = 24;  // the best of so many rows is taken
constexpr int kTries = 4000;     // until a pair counts as impossible

struct Pair {
  int axis = 0, value = 0;
  int other_axis = 0, other_value = 0;
  auto operator<=>(const Pair&) const = default;
};

std::vector<Pair> pairs_of(const Row& row) {
  std::vector<Pair> pairs;
  const int axes = static_cast<int>(row.size());
  for (int a = 0; a < axes; ++a)
    for (int b = a + 1; b < axes; ++b)
      if (row[a] != kUnused && row[b] != kUnused) pairs.push_back({a, row[a], b, row[b]});
  return pairs;
}

class Search {
 public:
  explicit Search(const CoveringOptions& options) : options_(options) {
    const int axes = static_cast<int>(options.values.size());
    for (int a = 0; a < axes; ++a)
      for (int b = a + 1; b < axes; ++b)
        for (int v = 0; v < options.values[a]; ++v)
          for (int w = 0; w < options.values[b]; ++w) rows_with_[{a, v, b, w}] = 0;
  }

  Covering run() {
    Covering result;
    result.pairs = rows_with_.size();
    while (result.rows.size() < options_.max_rows) {
      const std::optional<Pair> pair = rarest();
      if (!pair || (rows_with_[*pair] > 0 && result.rows.size() >= options_.min_rows)) break;
      if (const std::optional<Row> row = best_row_with(*pair)) {
        result.rows.push_back(*row);
        for (const Pair& held : pairs_of(*row)) rows_with_[held] += 1;
      } else {
        rows_with_.erase(*pair);
      }
    }
    result.possible = rows_with_.size();
    result.covered = static_cast<std::size_t>(std::count_if(
        rows_with_.begin(), rows_with_.end(), [](const auto& entry) { return entry.second > 0; }));
    count_uses(result);
    return result;
  }

 private:
  std::optional<Pair> rarest() const {
    const auto least = std::min_element(rows_with_.begin(),
                                        rows_with_.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    return least == rows_with_.end() ? std::nullopt : std::optional(least->first);
  }

  // The one that holds most of what is held least so far.
  std::optional<Row> best_row_with(const Pair& pair) {
    std::optional<Row> best;
    double best_worth = -1;
    int found = 0;
    for (int i = 0; i < kTries && found < kCandidates; ++i) {
      Row row = random_row();
      row[pair.axis] = pair.value;
      row[pair.other_axis] = pair.other_value;
      if (!options_.accepts(row) || row[pair.axis] != pair.value || row[pair.other_axis] != pair.other_value)
        continue;
      ++found;
      if (const double worth = worth_of(row); worth > best_worth) {
        best_worth = worth;
        best = std::move(row);
      }
    }
    return best;
  }

  double worth_of(const Row& row) const {
    double worth = 0;
    for (const Pair& pair : pairs_of(row))
      if (const auto entry = rows_with_.find(pair); entry != rows_with_.end())
        worth += 1.0 / static_cast<double>(1 + entry->second * entry->second * entry->second);
    return worth;
  }

  Row random_row() {
    Row row;
    for (const int values : options_.values)
      row.push_back(static_cast<int>(philox(kSeed, drawn_++)[0] % static_cast<std::uint32_t>(values)));
    return row;
  }

  void count_uses(Covering& result) const {
    for (std::size_t a = 0; a < options_.values.size(); ++a) {
      std::vector<std::size_t> uses(static_cast<std::size_t>(options_.values[a]));
      for (const Row& row : result.rows)
        if (row[a] != kUnused) uses[static_cast<std::size_t>(row[a])] += 1;
      result.uses.push_back(std::move(uses));
    }
  }

  static constexpr std::uint64_t kSeed = 20;

  const CoveringOptions& options_;
  std::map<Pair, std::size_t> rows_with_;  // only pairs that can stand together, as far as is known
  std::uint64_t drawn_ = 0;
};

}  // namespace

Covering cover_pairs(const CoveringOptions& options) {
  return Search(options).run();
}

}  // namespace llmtrain::test
