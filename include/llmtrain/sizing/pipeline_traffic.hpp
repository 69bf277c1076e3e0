#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/placement/flat_layout.hpp"
#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/sizing/memory.hpp"

// What a pipeline stage must give to the others, in closed form.
//
// Hidden states of a micro-batch cross to the next virtual stage in the compute type, and their gradients
// cross back, wherever the two lie on different stages; bytes are counted by who sends. Where head and
// embedding share a matrix over two stages, both give its whole segment's gradient, or the part they own,
// once a step. It knows no time and no overlap.
namespace llmtrain {

struct PipelineTraffic {
  Traffic sent_activations{};  // send over "pp"
  Traffic sent_gradients{};    // send over "pp_grad"
  Traffic received_activations{};
  Traffic received_gradients{};

  friend bool operator==(const PipelineTraffic&, const PipelineTraffic&) = default;
};

struct PipelinePass {
  DType compute = DType::kFp32;
  std::int64_t tokens = 0;  // of a micro-batch on one rank: its part of what sp and a sharded sequence cut
  std::int64_t width = 0;
};

// One step of the schedule, which must have passed the check.
PipelineTraffic pipeline_traffic(const Schedule& schedule, int stage, const PipelinePass& pass);

// all_reduce over "embedding", for a stage that holds one end of a tie over two stages; nothing for others.
// `layout` is that of the stage.
Traffic tied_traffic(const std::vector<FlatSegment>& layout, DType compute);

// Whether the matrix that embedding and head share lies on two stages.
bool is_tied_over_stages(const ModelSpec& model, const StageMap& map);

}  // namespace llmtrain
