#include "tests/train/covering.hpp"

#include <set>

#include "tests/support/catch.hpp"

using namespace llmtrain::test;

namespace {

std::set<std::vector<int>> pairs_in(const std::vector<Row>& rows) {
  std::set<std::vector<int>> pairs;
  for (const Row& row : rows)
    for (int a = 0; a < static_cast<int>(row.size()); ++a)
      for (int b = a + 1; b < static_cast<int>(row.size()); ++b)
        if (row[a] != kUnused && row[b] != kUnused) pairs.insert({a, row[a], b, row[b]});
  return pairs;
}

}  // namespace

TEST_CASE("covering: every pair of values, in few rows", "[train]") {
  const Covering covering = cover_pairs({.values = {3, 3, 3, 4}, .accepts = [](Row&) { return true; }});
  CHECK(pairs_in(covering.rows).size() == 3 * 9 + 3 * 12);
  CHECK(covering.covered == 63);
  CHECK(covering.possible == covering.pairs);
  CHECK(covering.rows.size() >= 12);
  CHECK(covering.rows.size() <= 18);  // of 108
}

TEST_CASE("covering: what cannot stand together is left out and counted", "[train]") {
  const auto rule = [](Row& row) {
    if (row[0] == 0) row[1] = kUnused;
    return row[2] + row[3] < 3;
  };
  const Covering covering = cover_pairs({.values = {2, 3, 3, 3}, .accepts = rule});
  CHECK(covering.pairs == 6 + 6 + 6 + 9 + 9 + 9);
  CHECK(covering.possible == covering.pairs - 3 - 3);
  CHECK(covering.covered == covering.possible);
  CHECK(pairs_in(covering.rows).size() == covering.possible);
  for (Row row : covering.rows) CHECK(rule(row));
}

TEST_CASE("covering: more rows cover again what was covered least; the same every time", "[train]") {
  const auto any = [](Row&) { return true; };
  const Covering covering = cover_pairs({.values = {2, 2, 2}, .accepts = any, .min_rows = 16});
  CHECK(covering.rows.size() == 16);
  for (const auto& axis : covering.uses) CHECK(axis == std::vector<std::size_t>{8, 8});
  CHECK(cover_pairs({.values = {2, 2, 2}, .accepts = any, .min_rows = 16}).rows == covering.rows);
}
