#include "llmtrain/train/faults.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

FaultSpec thrower() {
  FaultSpec fault;
  fault.kind = FaultKind::kThrow;
  fault.rank = 1;
  fault.step = 7;
  fault.point = "reduce";
  return fault;
}

}  // namespace

TEST_CASE("faults: a hook fires at its rank, step, point and incarnation only", "[train]") {
  CHECK_THROWS_AS(FaultInjector({thrower()}, 1, 0).at("reduce", 7), InjectedFault);
  CHECK_NOTHROW(FaultInjector({thrower()}, 0, 0).at("reduce", 7));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 1).at("reduce", 7));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 0).at("reduce", 6));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 0).at("backward", 7));
}

TEST_CASE("faults: -1 matches any rank and any incarnation, `each: step` any step", "[train]") {
  FaultSpec fault = thrower();
  fault.rank = -1;
  fault.incarnation = -1;
  fault.each = FaultEach::kStep;
  CHECK_THROWS_AS(FaultInjector({fault}, 3, 9).at("reduce", 123), InjectedFault);
}

TEST_CASE("faults: nan is a question, not an act", "[train]") {
  FaultSpec fault = thrower();
  fault.kind = FaultKind::kNan;
  FaultInjector faults({fault}, 1, 0);
  CHECK_NOTHROW(faults.at("reduce", 7));
  CHECK(faults.wants_nan("reduce", 7));
  CHECK_FALSE(faults.wants_nan("reduce", 8));
}

TEST_CASE("faults: jitter is nothing without a hook for this rank and incarnation", "[train]") {
  FaultSpec fault;
  fault.kind = FaultKind::kJitter;
  fault.rank = 1;
  fault.ms = 1;
  CHECK(FaultInjector({}, 1, 0).jitter() == nullptr);
  CHECK(FaultInjector({fault}, 0, 0).jitter() == nullptr);
  CHECK(FaultInjector({fault}, 1, 1).jitter() == nullptr);
  const auto jitter = FaultInjector({fault}, 1, 0).jitter();
  REQUIRE(jitter != nullptr);
  for (int i = 0; i < 100; ++i) jitter();
  CHECK_NOTHROW(FaultInjector({fault}, 1, 0).at("step", 0));
}
