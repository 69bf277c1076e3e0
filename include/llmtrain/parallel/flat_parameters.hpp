#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "llmtrain/parallel/segment_lanes.hpp"
#include "llmtrain/placement/flat_layout.hpp"
#include "llmtrain/tensor/memory_pool.hpp"
#include "llmtrain/tensor/tensor.hpp"

// The model's storage on one rank: for every segment one flat buffer of weights, one of main gradients and
// one of master weights.
//
// Under tensor parallelism a rank holds its shard of every parameter, and "shape" below is the shard's. Where
// state is sharded over the gradient group, a rank owns one range of every buffer: masters, and what an
// optimizer or a checkpoint reads and writes, exist for that range only. What is sharded beyond that has
// memory in lanes, for a while. Making weights whole again, and gradients sums, is the business of others.
//
// Weights have the compute type. Main gradients and masters have fp32, or fp64 under fp64; when that is
// the compute type, master and weights are the same storage. A parameter lies at the same element offset
// in all three, on a 64-byte boundary in each; gaps are zero and stay zero, so that whole buffers may be
// reduced, normed and updated at once. It knows names and memory, not what the network computes.
namespace llmtrain {

// One parameter's part of the buffers: flattened one-dimensional views of this rank's shard of it, and of the
// part of that shard which this rank owns.
struct ParamSlice {
  const ParamSpec* spec = nullptr;
  ParamShard shard;
  std::int64_t offset = 0;  // elements from the start of the segment's buffers
  at::Tensor weight;        // [numel] compute type
  at::Tensor grad;          // [numel] main type

  FlatRange owned;        // of the flattened shard; all of it unless state is sharded, and perhaps nothing
  at::Tensor own_weight;  // [owned] compute type
  at::Tensor master;      // [owned] main type
  at::Tensor own_grad;    // [owned] main type

  // Of all ranks with these values, one counts them in norms and writes them to disk.
  bool is_counted() const { return shard.is_counted() && !spec->is_copy; }
};

struct SegmentParameters {
  at::Tensor weights;      // [padded numel] compute type; hollow where weights are sharded
  at::Tensor grads;        // [padded numel] main type; hollow where gradients are sharded
  FlatRange own;           // what this rank owns of them
  at::Tensor own_weights;  // [own] compute type; this rank's range of weights, or its only copy
  at::Tensor masters;      // [own] main type; the same storage as weights when the types agree
  at::Tensor own_grads;    // [own] main type; this rank's range of grads, or the sum over passes of it
  std::optional<SegmentIndex> borrows;  // holds values that this segment computes with too
  std::vector<ParamSlice> slices;       // in table order; tied parameters are absent

  // Of a segment that another pipeline stage holds.
  bool empty() const { return slices.empty(); }
  bool is_copy() const { return !empty() && slices.front().spec->is_copy; }
};

// Of one rank, lanes included.
struct BufferBytes {
  std::int64_t weights = 0;
  std::int64_t masters = 0;  // where they are not the weights themselves
  std::int64_t grads = 0;
};

// A weight with its main gradient, in the shard's shape. Both undefined: no such parameter.
struct WeightView {
  at::Tensor weight;
  at::Tensor grad;
  bool defined() const { return weight.defined(); }
};

class FlatParameters {
 public:
  // Masters are counted in `master_pool`. The table must list segments in ascending order, as parameter_table
  // does, and may leave some out, as stage_table does: these are empty. Gradients start at zero, weights at
  // zero too: call initialize, or fill the masters (a checkpoint does) and call publish_all.
  FlatParameters(std::vector<ParamSpec> table,
                 DType compute,
                 TensorPlace place = {},
                 ZeroPlace zero = {},
                 MemoryPool master_pool = MemoryPool::kOptimizer);
  FlatParameters(const FlatParameters&) = delete;
  FlatParameters& operator=(const FlatParameters&) = delete;
  FlatParameters(FlatParameters&&) = default;
  FlatParameters& operator=(FlatParameters&&) = default;

  // Fills masters by init_values and publishes them.
  void initialize(std::uint64_t seed);
  // Rounds a segment's masters into its own weights; nothing to do when they are the same storage.
  void publish(SegmentIndex segment);
  void publish_all();
  // Where gradients are sharded: of the own sums; a lane is cleared by who fills it.
  void zero_grad(SegmentIndex segment);
  void zero_grads();

  int num_segments() const { return static_cast<int>(segments_.size()); }
  const SegmentParameters& segment(SegmentIndex index) const;
  // The slice that holds a parameter's values; follows tied_with. Throws CheckFailure for an unknown name.
  const ParamSlice& slice(const std::string& name) const;
  bool contains(const std::string& name) const { return by_name_.contains(name); }

  // In the shard's shape; undefined for an unknown name, so that optional parts need no second list.
  WeightView view(const std::string& name) const;
  // One matrix over parameters that are neighbours in the buffer: [sum of rows, columns], or [sum of
  // rows] for vectors. Undefined when one is unknown or padding lies between them.
  WeightView fused_view(const std::vector<std::string>& names) const;

  // Where weights are sharded, and where gradients are.
  SegmentLanes& weight_lanes() { return weight_lanes_; }
  SegmentLanes& gradient_lanes() { return gradient_lanes_; }
  BufferBytes bytes() const;

  const std::vector<ParamSpec>& table() const { return table_; }
  TensorPlace place() const { return place_; }
  ZeroPlace zero() const { return zero_; }
  DType compute_type() const { return compute_; }
  DType main_type() const { return accumulation_type(compute_); }
  bool has_separate_masters() const { return compute_ != main_type(); }

 private:
  struct Location {
    SegmentIndex segment = 0;
    std::size_t index = 0;
  };

  void allocate(SegmentIndex index, const FlatSegment& layout);
  void allocate_weights(SegmentParameters& segment, const FlatSegment& layout);
  void allocate_grads(SegmentParameters& segment, const FlatSegment& layout);
  void allocate_lanes(const std::vector<FlatSegment>& layout);
  void tie(const ParamSpec& param);

  std::vector<ParamSpec> table_;
  DType compute_;
  TensorPlace place_;
  ZeroPlace zero_;
  MemoryPool master_pool_;
  std::vector<SegmentParameters> segments_;
  SegmentLanes weight_lanes_;
  SegmentLanes gradient_lanes_;
  std::unordered_map<std::string, Location> by_name_;
};

}  // namespace llmtrain
