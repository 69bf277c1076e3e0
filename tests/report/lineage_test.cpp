#include "llmtrain/report/lineage.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

using Limits = std::vector<std::int64_t>;

TEST_CASE("lineage: an undisturbed run keeps everything", "[report]") {
  CHECK(accepted_until({{0, 10}}) == Limits{kAllSteps});
  CHECK(accepted_until({}).empty());
  CHECK(accepted_until({{-1, -1}}) == Limits{kNoSteps});
}

TEST_CASE("lineage: steps beyond the checkpoint are lost", "[report]") {
  CHECK(accepted_until({{0, 7}, {5, 12}}) == Limits{5, kAllSteps});
  CHECK(accepted_until({{0, 7}, {5, 11}, {5, 12}}) == Limits{5, kNoSteps, kAllSteps});
  CHECK(accepted_until({{0, 7}, {0, 9}}) == Limits{kNoSteps, kAllSteps});
}

TEST_CASE("lineage: one that went further back and saved nothing costs the others nothing", "[report]") {
  CHECK(accepted_until({{0, 10}, {4, 6}, {8, 12}}) == Limits{8, kNoSteps, kAllSteps});
}

TEST_CASE("lineage: one that never got to its first step plays no part", "[report]") {
  CHECK(accepted_until({{0, 7}, {-1, -1}, {5, -1}}) == Limits{5, kNoSteps, kAllSteps});
}

TEST_CASE("lineage: when the last lines of a writer are lost, the closest is taken", "[report]") {
  CHECK(accepted_until({{0, 4}, {5, 9}}) == Limits{5, kAllSteps});
}
