#pragma once

#include <optional>
#include <vector>

#include "llmtrain/placement/flat_layout.hpp"
#include "llmtrain/tensor/tensor.hpp"

// The transient memory in which sharded segments take turns to be whole: one is computed with while its
// neighbour's values travel.
//
// One segment at a time stays in a lane. What is moved into or out of a lane, and when, is the business of
// others; so is which segment must make room.
namespace llmtrain {

class SegmentLanes {
 public:
  SegmentLanes() = default;  // nothing is sharded
  // `segments`: the hollow buffer of each, which has memory during a stay.
  SegmentLanes(std::vector<at::Tensor> segments, const LanePlan& plan);

  bool holds(SegmentIndex segment) const { return occupant(segment) == segment; }
  // Of the lane that belongs to this segment.
  std::optional<SegmentIndex> occupant(SegmentIndex segment) const;
  // The lane must be free.
  void enter(SegmentIndex segment);
  void leave(SegmentIndex segment);
  // [elements of the segment], whether it stays there or not. It owns its memory, so a transfer may outlive
  // everybody else.
  at::Tensor memory(SegmentIndex segment) const;

  std::int64_t bytes() const;

 private:
  struct Lane {
    at::Tensor memory;  // [elements of its largest segment]
    std::optional<SegmentIndex> occupant;
  };

  const Lane& lane(SegmentIndex segment) const;

  std::vector<at::Tensor> segments_;
  std::vector<int> lane_of_;
  std::vector<Lane> lanes_;
};

}  // namespace llmtrain
