#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llmtrain/placement/parameter_table.hpp"

// Which segments of a model each virtual stage of a pipeline holds: pure arithmetic on layers.
//
// The embedding goes with the first virtual stage, the final norm and head with the last; the layers between
// them are dealt out in order. It knows no schedule, no rank and no memory: what lies on which rank is for
// StageMap to say.
namespace llmtrain {

// [first, end) of the segments of parameter_table.
struct SegmentRange {
  SegmentIndex first = 0;
  SegmentIndex end = 0;

  int size() const { return end - first; }
  bool contains(SegmentIndex segment) const { return first <= segment && segment < end; }
  friend bool operator==(const SegmentRange&, const SegmentRange&) = default;
};

// Virtual stages that a model of `num_layers` has pieces for: every one holds a layer, the embedding or the
// head.
constexpr std::int64_t most_virtual_stages(std::int64_t num_layers) {
  return num_layers + 2;
}

// Layers of each virtual stage, so that the slowest is as fast as it can be. What counts is multiply-adds of
// a token's forward: a layer's matrices, and scores and weighted values over half of `seq_length` keys; the
// head's matrix; of the embedding, which is looked up, the row. Where several cuts are as fast, layers are
// spread evenly, and what is left over goes to later stages, which keep fewer activations. Only a virtual
// stage with the embedding or the head may be left without layers. `model` must be resolved, and
// virtual_stages at most most_virtual_stages(num_layers).
std::vector<std::int64_t> balanced_layers(const ModelSpec& model,
                                          std::int64_t seq_length,
                                          int virtual_stages);

// The segments of each virtual stage, given its layers.
std::vector<SegmentRange> stage_segments(std::span<const std::int64_t> layers);

}  // namespace llmtrain
