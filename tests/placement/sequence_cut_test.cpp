#include "llmtrain/placement/sequence_cut.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

// Keys that the queries of these tokens see: what causal attention costs.
std::int64_t pairs(const std::vector<TokenRun>& runs) {
  std::int64_t sum = 0;
  for (const TokenRun& run : runs)
    for (std::int64_t i = 0; i < run.count; ++i) sum += run.first + i + 1;
  return sum;
}

}  // namespace

TEST_CASE("sequence cut: every token is held once, in order, by equal parts", "[placement]") {
  for (const bool balanced : {false, true})
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(balanced, ranks);
      const std::int64_t length = 2 * 5 * ranks;  // chunks of odd length
      std::vector<int> holders(static_cast<std::size_t>(length), 0);
      for (int rank = 0; rank < ranks; ++rank) {
        const SequenceCut cut{.length = length, .ranks = ranks, .rank = rank, .balanced = balanced};
        std::int64_t held = 0;
        std::int64_t after = 0;
        for (const TokenRun& run : cut.runs()) {
          CHECK(run.first >= after);
          after = run.first + run.count;
          held += run.count;
          for (std::int64_t i = run.first; i < after; ++i) ++holders[static_cast<std::size_t>(i)];
        }
        CHECK(held == cut.own_length());
        CHECK(held == length / ranks);
      }
      CHECK(holders == std::vector<int>(holders.size(), 1));
    }
}

TEST_CASE("sequence cut: a balanced one gives every rank the same causal work", "[placement]") {
  for (int rank = 0; rank < 4; ++rank)
    CHECK(pairs(SequenceCut{.length = 40, .ranks = 4, .rank = rank, .balanced = true}.runs()) ==
          40 * 41 / 2 / 4);
}

TEST_CASE("sequence cut: the ring is balanced, one rank holds one run, by hand", "[placement]") {
  ParallelismSpec p;
  CHECK(sequence_cut(p, 7, 0).runs() == std::vector<TokenRun>{{0, 7}});
  p.sp = 2;
  CHECK(sequence_cut(p, 12, 1).runs() == std::vector<TokenRun>{{3, 3}, {6, 3}});
  CHECK(sequence_cut(p, 12, 0).runs() == std::vector<TokenRun>{{0, 3}, {9, 3}});
  p.sp_method = SequenceMethod::kAllGather;
  CHECK(sequence_cut(p, 10, 1).runs() == std::vector<TokenRun>{{5, 5}});
}

TEST_CASE("sequence cut: a length that does not divide is a broken invariant", "[placement]") {
  CHECK_THROWS_AS((SequenceCut{.length = 10, .ranks = 2, .balanced = true}.runs()), CheckFailure);
}
