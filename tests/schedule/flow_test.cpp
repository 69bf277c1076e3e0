#include "llmtrain/schedule/flow.hpp"

#include "schedule_support.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {
constexpr auto kF = ActionKind::kForward;
constexpr auto kB = ActionKind::kBackward;
constexpr auto kI = ActionKind::kInputGradient;
constexpr auto kW = ActionKind::kWeightGradient;
}  // namespace

TEST_CASE("flow: activations go on, gradients go back, weight gradients stay") {
  const StageMap map = StageMap::loop(2, 2);  // 0 and 2 on stage 0, 1 and 3 on stage 1
  CHECK(source_of(map, 0, {kF, 0, 0}) == std::nullopt);
  CHECK(destination_of(map, 0, {kF, 0, 0}) == Site{1, 0});
  CHECK(source_of(map, 0, {kF, 1, 0}) == Site{1, 0});
  CHECK(destination_of(map, 1, {kF, 1, 0}) == std::nullopt);
  for (const ActionKind kind : {kB, kI}) {
    CHECK(source_of(map, 1, {kind, 1, 0}) == std::nullopt);
    CHECK(destination_of(map, 1, {kind, 1, 0}) == Site{0, 1});
    CHECK(source_of(map, 0, {kind, 0, 0}) == Site{1, 0});
    CHECK(destination_of(map, 0, {kind, 0, 0}) == std::nullopt);
  }
  CHECK(source_of(map, 1, {kW, 0, 0}) == std::nullopt);
  CHECK(destination_of(map, 1, {kW, 0, 0}) == std::nullopt);
}

TEST_CASE("flow: at the turn of a vee the tensor stays on its stage") {
  const StageMap map = StageMap::vee(2);
  CHECK(destination_of(map, 1, {kF, 0, 0}) == Site{1, 1});
  CHECK(source_of(map, 1, {kI, 0, 0}) == Site{1, 1});
}

TEST_CASE("flow: what is sent on a link is what is taken from it, message for message") {
  for_each_schedule([](const Schedule& schedule) {
    std::size_t count = 0;
    for (const auto& [link, traffic] : link_traffic(schedule)) {
      REQUIRE(link.from != link.to);
      REQUIRE(traffic.sent.size() == traffic.taken.size());
      count += traffic.sent.size();
    }
    const auto borders = static_cast<std::size_t>(schedule.map.num_virtual_stages() - 1 -
                                                  (schedule.name == "zbv" ? 1 : 0));  // the turn
    const std::size_t crossing = schedule.num_stages() == 1 ? 0 : borders;
    REQUIRE(count == 2 * crossing * static_cast<std::size_t>(schedule.num_micro_batches));
  });
}

TEST_CASE("flow: the links of a small schedule") {
  const auto traffic = link_traffic(make("1f1b", 2, 2, 1));
  REQUIRE(traffic.size() == 2);
  // F0 F1 B0 B1 and F0 B0 F1 B1
  CHECK(traffic.at({0, 1, Payload::kActivation}).sent == std::vector{0, 1});
  CHECK(traffic.at({0, 1, Payload::kActivation}).taken == std::vector{0, 2});
  CHECK(traffic.at({1, 0, Payload::kGradient}).sent == std::vector{1, 3});
  CHECK(traffic.at({1, 0, Payload::kGradient}).taken == std::vector{2, 3});
}
