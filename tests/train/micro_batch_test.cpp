#include "llmtrain/train/micro_batch.hpp"

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("micro-batch: labels are the tokens that follow", "[train]") {
  const TokenBatch batch{.tokens = {1, 2, 3, 4, 5, 6, 7, 8}, .sample_ids = {0, 1}, .rows = 2};

  const MicroBatch out = to_micro_batch(batch, {.length = 3});

  CHECK(out.tokens.sizes() == at::IntArrayRef({2, 3}));
  for (int row = 0; row < 2; ++row)
    for (int i = 0; i < 3; ++i) {
      CHECK(out.tokens[row][i].item<std::int64_t>() == 1 + 4 * row + i);
      CHECK(out.labels[row][i].item<std::int64_t>() == 2 + 4 * row + i);
    }
}

TEST_CASE("micro-batch: a row of another length is a broken invariant", "[train]") {
  CHECK_THROWS_AS(to_micro_batch({.tokens = {1, 2, 3}, .sample_ids = {0}, .rows = 1}, {.length = 3}),
                  CheckFailure);
}

// The last token of a chunk has the first of the next one for its label, which another rank holds.
TEST_CASE("micro-batch: a rank's tokens and labels are those of the whole row", "[train]") {
  TokenBatch batch{.sample_ids = {0}, .rows = 1};
  for (int token = 0; token <= 12; ++token) batch.tokens.push_back(100 + token);
  for (const bool balanced : {false, true})
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(balanced, rank);
      const SequenceCut cut{.length = 12, .ranks = 3, .rank = rank, .balanced = balanced};
      const MicroBatch out = to_micro_batch(batch, cut);
      REQUIRE(out.tokens.sizes() == at::IntArrayRef({1, 4}));
      std::int64_t column = 0;
      for (const TokenRun& run : cut.runs())
        for (std::int64_t i = run.first; i < run.first + run.count; ++i, ++column) {
          CHECK(out.tokens[0][column].item<std::int64_t>() == 100 + i);
          CHECK(out.labels[0][column].item<std::int64_t>() == 101 + i);
        }
    }
}
