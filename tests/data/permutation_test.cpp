#include "llmtrain/data/permutation.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

std::vector<std::int64_t> order(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  const Permutation permutation(n, seed, epoch);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(permutation.at(i));
  return values;
}

}  // namespace

TEST_CASE("permutation: every size is a bijection", "[data]") {
  for (const std::int64_t n :
       {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 64, 65, 97, 127, 1000, 1023, 1024, 1025, 7919, 100003}) {
    std::vector<bool> seen(static_cast<std::size_t>(n), false);
    for (const std::int64_t value : order(n, 1234, 3)) {
      REQUIRE(value >= 0);
      REQUIRE(value < n);
      REQUIRE_FALSE(seen[static_cast<std::size_t>(value)]);
      seen[static_cast<std::size_t>(value)] = true;
    }
  }
}

TEST_CASE("permutation: seed and epoch each change the order, nothing else does", "[data]") {
  CHECK(order(1000, 1, 0) == order(1000, 1, 0));
  CHECK(order(1000, 1, 0) != order(1000, 1, 1));
  CHECK(order(1000, 1, 0) != order(1000, 2, 0));
}

// Golden values of docs/DATA.md's recipe, computed by the independent Python program beside this test.
TEST_CASE("permutation: the order is frozen", "[data]") {
  CHECK(order(10, 1234, 0) == std::vector<std::int64_t>{8, 1, 3, 4, 5, 0, 7, 6, 2, 9});
  CHECK(order(10, 1234, 1) == std::vector<std::int64_t>{6, 2, 3, 4, 8, 9, 5, 7, 1, 0});
  CHECK(Permutation(std::int64_t{1} << 40, 7, 2).at(123456789) == 763122762155);
}

TEST_CASE("permutation: two to the forty stays inside and does not collide nearby", "[data]") {
  const std::int64_t n = (std::int64_t{1} << 40) + 12345;
  const Permutation permutation(n, 99, 5);
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 20000; ++i) values.push_back(permutation.at(i * (n / 20000)));
  std::sort(values.begin(), values.end());
  CHECK(std::adjacent_find(values.begin(), values.end()) == values.end());
  CHECK(values.front() >= 0);
  CHECK(values.back() < n);
}

TEST_CASE("permutation: the first tenth is spread over the whole range", "[data]") {
  const std::int64_t n = 100000;
  const Permutation permutation(n, 4, 0);
  std::vector<int> buckets(10, 0);
  for (std::int64_t i = 0; i < n / 10; ++i) ++buckets[static_cast<std::size_t>(permutation.at(i) / (n / 10))];
  for (const int count : buckets) {  // 1000 expected, standard deviation about 28
    CHECK(count > 850);
    CHECK(count < 1150);
  }
}

TEST_CASE("permutation: in a tiny set every value visits every place", "[data]") {
  std::vector<int> first(8, 0);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    ++first[static_cast<std::size_t>(Permutation(8, 1, epoch).at(3))];
  }
  for (const int count : first) {  // 500 expected, standard deviation about 21
    CHECK(count > 400);
    CHECK(count < 600);
  }
}
