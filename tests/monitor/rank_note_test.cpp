#include "llmtrain/monitor/rank_note.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

void spend(BlackBox& box, Phase phase, std::int64_t ms, std::int64_t of_it_standing_ms = 0) {
  box.phase_ns[static_cast<std::size_t>(phase)] += ms * 1'000'000;
  box.phase.store(phase);
  box.add_stood(of_it_standing_ms * 1'000'000);
}

}  // namespace

TEST_CASE("rank note: what steps cost leaves out standing in collectives, saves and evaluations",
          "[monitor]") {
  BlackBox box;
  CHECK_FALSE(look_at(0, box, 1).costs);  // no step yet
  spend(box, Phase::kStarting, 5000);
  spend(box, Phase::kDataWait, 30);
  spend(box, Phase::kForward, 100, 20);
  spend(box, Phase::kBackward, 200, 40);
  spend(box, Phase::kStageWait, 50, 50);
  spend(box, Phase::kReduce, 60, 60);
  spend(box, Phase::kOptimizer, 10);
  spend(box, Phase::kEvaluate, 3000, 100);
  spend(box, Phase::kSaving, 2000, 100);
  box.write_costs(7, true, 25'000'000);
  const auto costs = look_at(0, box, 1).costs;
  REQUIRE(costs);
  CHECK(costs->step == 7);
  CHECK(costs->total_ms == Approx(450));
  CHECK(costs->compute_ms == Approx(250));
  CHECK(costs->data_ms == Approx(30));
  CHECK(costs->sending_ms == Approx(25));
}

TEST_CASE("rank note: costs that are being written are not read", "[monitor]") {
  BlackBox box;
  spend(box, Phase::kForward, 100);
  box.write_costs(1, true, 0);
  CHECK(look_at(0, box, 1).costs);
  box.costs.writing.store(2);
  CHECK_FALSE(look_at(0, box, 1).costs);
}

TEST_CASE("rank note: of a GPU's work the host's clock says nothing", "[monitor]") {
  BlackBox box;
  spend(box, Phase::kDataWait, 30);
  spend(box, Phase::kForward, 100);
  box.write_costs(1, false, 0);
  const auto costs = look_at(0, box, 1).costs;
  REQUIRE(costs);
  CHECK(costs->compute_ms == 0);
  CHECK(costs->data_ms == Approx(30));
}
