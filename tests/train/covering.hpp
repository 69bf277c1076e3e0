#pragma once

#include <cstddef>
#include <functional>
#include <vector>

// Few rows that together hold every pair of values of any two axes that can stand together.
//
// Most mistakes of a combination need two of its values; a row of a dozen axes holds more than sixty pairs. A
// seeded greedy search: the same axes and rules give the same rows.
namespace llmtrain::test {

using Row = std::vector<int>;  // of each axis the index of its value, or kUnused

inline constexpr int kUnused =
    -1;  // the axis means nothing beside the others, as a pipeline's schedule without one

struct CoveringOptions {
  std::vector<int> values;  // of each axis, how many
  // Whether a row can be; it may set axes to kUnused first.
  std::function<bool(Row&)> accepts;
  std::size_t min_rows = 0;  // once every pair is covered, those covered least are covered again
  std::size_t max_rows = 1000;
};

struct Covering {
  std::vector<Row> rows;
  std::size_t covered = 0;   // different pairs
  std::size_t possible = 0;  // pairs for which a row was found
  std::size_t pairs = 0;     // of values of two axes, whether they can stand together or not
  std::vector<std::vector<std::size_t>> uses;  // of each axis and value, rows that have it
};

Covering cover_pairs(const CoveringOptions& options);

}  // namespace llmtrain::test
