#include "llmtrain/parallel/segment_lanes.hpp"

#include <utility>

#include "llmtrain/core/check.hpp"
#include "llmtrain/tensor/hollow.hpp"

namespace llmtrain {

SegmentLanes::SegmentLanes(std::vector<at::Tensor> segments, const LanePlan& plan)
    : segments_(std::move(segments)), lane_of_(plan.lane_of) {
  LLMTRAIN_CHECK(segments_.size() == lane_of_.size() && !segments_.empty(),
                 "{} segments and a plan for {}",
                 segments_.size(),
                 lane_of_.size());
  const DType type = dtype_of(segments_.front().scalar_type());
  for (const std::int64_t elements : plan.elements)
    lanes_.push_back({.memory = zeros_host({elements}, type), .occupant = {}});
}

const SegmentLanes::Lane& SegmentLanes::lane(SegmentIndex segment) const {
  LLMTRAIN_CHECK(segment >= 0 && segment < static_cast<int>(lane_of_.size()),
                 "segment {} of {}",
                 segment,
                 lane_of_.size());
  return lanes_[static_cast<std::size_t>(lane_of_[static_cast<std::size_t>(segment)])];
}

std::optional<SegmentIndex> SegmentLanes::occupant(SegmentIndex segment) const {
  return lane(segment).occupant;
}

void SegmentLanes::enter(SegmentIndex segment) {
  const auto index = static_cast<std::size_t>(segment);
  LLMTRAIN_CHECK(!lane(segment).occupant, "segment {} into the lane of {}", segment, *lane(segment).occupant);
  lanes_[static_cast<std::size_t>(lane_of_[index])].occupant = segment;
  lend_memory(segments_[index], memory(segment));
}

void SegmentLanes::leave(SegmentIndex segment) {
  const auto index = static_cast<std::size_t>(segment);
  LLMTRAIN_CHECK(holds(segment), "segment {} leaves a lane where it is not", segment);
  lanes_[static_cast<std::size_t>(lane_of_[index])].occupant.reset();
  withdraw_memory(segments_[index]);
}

at::Tensor SegmentLanes::memory(SegmentIndex segment) const {
  return lane(segment).memory.narrow(0, 0, segments_[static_cast<std::size_t>(segment)].numel());
}

std::int64_t SegmentLanes::bytes() const {
  std::int64_t bytes = 0;
  for (const Lane& lane : lanes_) bytes += static_cast<std::int64_t>(lane.memory.nbytes());
  return bytes;
}

}  // namespace llmtrain
