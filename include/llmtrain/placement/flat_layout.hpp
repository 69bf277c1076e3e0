#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llmtrain/placement/shard.hpp"

// Where parameters lie in the flat buffers of their segments, and which part of a buffer a rank owns: pure
// arithmetic on the placement table.
//
// Model state may be spread over the gradient group (dp x sp), or over each of several equal parts of it that
// then hold a copy: every rank owns one contiguous range of
// each segment's buffer, all of one size and on 64-byte boundaries, for which buffers are padded. What else
// is cut grows with the stage. It knows no memory and no process.
namespace llmtrain {

// Elements from one parameter to the next: 64 bytes of bf16, so that offsets agree in buffers of every type.
inline constexpr std::int64_t kFlatAlignment = 32;

// Where a rank stands among the ranks that share one copy of the model's state, and what of it they share.
struct ZeroPlace {
  int stage = 0;  // 0: nothing is spread; 1: masters and moments; 2: gradients too; 3: and weights
  int rank = 0;
  int size = 1;
  int copies = 1;              // in the gradient group
  bool keeps_weights = false;  // what is gathered of sharded weights stays whole until they change

  bool shards_optimizer() const { return stage >= 1; }
  bool shards_gradients() const { return stage >= 2; }
  bool shards_weights() const { return stage >= 3; }
  int parts() const { return shards_optimizer() ? size : 1; }
};

// [begin, end), in elements.
struct FlatRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  friend bool operator==(const FlatRange&, const FlatRange&) = default;
};

struct FlatSlot {
  const ParamSpec* spec = nullptr;  // in the table that was given
  ParamShard shard;
  std::int64_t offset = 0;  // from the start of the buffer
  FlatRange owned;          // of the flattened shard; may be empty
};

struct FlatSegment {
  std::vector<FlatSlot> slots;            // in table order; tied parameters are absent
  std::int64_t elements = 0;              // of the buffer, padding included
  FlatRange own;                          // of the buffer
  std::optional<SegmentIndex> borrows{};  // holds values that this segment computes with too
};

// By segment. The table must list segments in ascending order, as parameter_table does, and outlive the
// result.
std::vector<FlatSegment> flat_layout(const std::vector<ParamSpec>& table,
                                     TensorPlace place = {},
                                     ZeroPlace zero = {});

// Which segments take turns in which piece of transient memory, where segments are whole for a while only:
// even and odd ones have a lane each, so that neighbours never meet. One that others borrow from, which is
// needed at both ends of the model, has its own, and so has one whose gradient begins in the forward pass: a
// pipeline may compute anything before it comes back for the rest.
struct LanePlan {
  std::vector<int> lane_of;            // by segment
  std::vector<std::int64_t> elements;  // by lane: its largest segment
};

LanePlan plan_lanes(const std::vector<FlatSegment>& layout);
// A lane for every segment: nobody makes room for anybody.
LanePlan own_lanes(const std::vector<FlatSegment>& layout);

}  // namespace llmtrain
