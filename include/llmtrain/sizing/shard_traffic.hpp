#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/placement/stage_cut.hpp"
#include "llmtrain/schedule/action.hpp"
#include "llmtrain/sizing/memory.hpp"

// What a rank must give to the collectives of its gradient group (dp x sp), in closed form, however much of
// the model's state is sharded over that group.
//
// Bytes are the payload that a rank hands to an operation: for a gather its own part, for a scattered sum the
// whole buffer. It knows no time and no overlap. Nothing for one rank.
namespace llmtrain {

// Over the ranks that share one copy of what is sharded, but for `copies`: over those with the same part of
// each.
struct ShardTraffic {
  Traffic copies{};  // all_reduce
  Traffic all_reduce{};
  Traffic reduce_scatter{};
  Traffic all_gather{};

  friend bool operator==(const ShardTraffic&, const ShardTraffic&) = default;
};

// What a rank computes in a step, of which its collectives follow.
struct StepShape {
  std::int64_t accumulation = 1;         // micro-batches
  std::vector<Action> program{};         // of its pipeline stage
  std::vector<SegmentRange> chunks{};    // of the stage, in the order of the model
  std::optional<std::int64_t> bucket{};  // elements of one all_reduce; absent: a whole segment
};

// One step: gradients, the norm where its parts are spread, and weights. `table` is that of a rank's stage
// (stage_table), or of the whole model.
ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          NumberFormats formats,
                          const StepShape& step,
                          ZeroPlace zero,
                          TensorPlace place = {});

// The same without a pipeline: `accumulation` times forward and backward through the whole model.
ShardTraffic step_traffic(const std::vector<ParamSpec>& table,
                          NumberFormats formats,
                          std::int64_t accumulation,
                          ZeroPlace zero,
                          TensorPlace place = {});

// Once, before the first step: weights that are initialised or loaded in parts, unless they stay in parts.
Traffic start_traffic(const std::vector<ParamSpec>& table,
                      DType compute,
                      ZeroPlace zero,
                      TensorPlace place = {});

}  // namespace llmtrain
