#include "llmtrain/train/micro_batch.hpp"

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("micro-batch: labels are the tokens that follow", "[train]") {
  const TokenBatch batch{.tokens = {1, 2, 3, 4, 5, 6, 7, 8}, .sample_ids = {0, 1}, .rows = 2};

  const MicroBatch out = to_micro_batch(batch, 3);

  CHECK(out.tokens.sizes() == at::IntArrayRef({2, 3}));
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 3; ++i) {
      CHECK(out.tokens[row][i].item<std::int64_t>() == 1 + 4 * row + i);
      CHECK(out.labels[row][i].item<std::int64_t>() == 2 + 4 * row + i);
    }
}

TEST_CASE("micro-batch: a row of another length is a broken invariant", "[train]") {
  CHECK_THROWS_AS(to_micro_batch({.tokens = {1, 2, 3}, .sample_ids = {0}, .rows = 1}, 3), CheckFailure);
}
