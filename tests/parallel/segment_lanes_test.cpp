#include "llmtrain/parallel/segment_lanes.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/hollow.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("hollow tensor: views follow the memory that is lent", "[parallel]") {
  const at::Tensor hollow = hollow_host(64, DType::kFp32);        // [64]
  const at::Tensor view = hollow.narrow(0, 32, 16).view({4, 4});  // [4, 4]
  at::Tensor first = zeros_host({64}, DType::kFp32).fill_(1);     // [64]
  at::Tensor second = zeros_host({100}, DType::kFp32).fill_(2);   // [100]
  CHECK_THROWS(view.const_data_ptr<float>());
  lend_memory(hollow, first);
  CHECK(view.sum().item<float>() == 16);
  lend_memory(hollow, second);
  CHECK(view.sum().item<float>() == 32);
  withdraw_memory(hollow);
  CHECK_THROWS(view.const_data_ptr<float>());
  CHECK_THROWS_AS(lend_memory(hollow, zeros_host({63}, DType::kFp32)), CheckFailure);
  CHECK_THROWS_AS(lend_memory(hollow, zeros_host({64}, DType::kFp64)), CheckFailure);
}

TEST_CASE("segment lanes: one segment at a time, and what it had is not kept for it", "[parallel]") {
  std::vector<at::Tensor> segments;
  for (const std::int64_t numel : {64, 32, 96}) segments.push_back(hollow_host(numel, DType::kFp32));
  SegmentLanes lanes(segments, {.lane_of = {0, 1, 0}, .elements = {96, 32}});
  CHECK(lanes.bytes() == (96 + 32) * 4);
  lanes.enter(0);
  lanes.enter(1);
  CHECK(lanes.holds(0));
  CHECK(lanes.occupant(2) == 0);
  CHECK(segments[0].const_data_ptr<float>() == lanes.memory(0).const_data_ptr<float>());
  CHECK_THROWS_AS(lanes.enter(2), CheckFailure);
  CHECK_THROWS_AS(lanes.leave(2), CheckFailure);
  lanes.leave(0);
  lanes.enter(2);
  CHECK(lanes.holds(2));
  CHECK_FALSE(lanes.holds(0));
  CHECK_THROWS(segments[0].const_data_ptr<float>());
  CHECK(lanes.memory(0).numel() == 64);
  CHECK_THROWS_AS(lanes.enter(3), CheckFailure);
}
