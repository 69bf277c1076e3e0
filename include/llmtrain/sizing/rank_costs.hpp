#pragma once

#include <span>

#include "llmtrain/placement/stage_cut.hpp"
#include "llmtrain/schedule/in_flight.hpp"
#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/sizing/pipeline_traffic.hpp"
#include "llmtrain/sizing/sequence_traffic.hpp"
#include "llmtrain/sizing/shard_traffic.hpp"
#include "llmtrain/sizing/tensor_traffic.hpp"
#include "llmtrain/spec/job_spec.hpp"

namespace llmtrain {

// What a job's layout makes the first rank of a pipeline stage hold and, in one step, give to its groups.
// Bytes of activations come on top: how many micro-batches a stage keeps is known here, what one takes is
// not.
struct RankCosts {
  std::int64_t layers = 0;
  StaticMemory memory;
  InFlight kept;
  ShardTraffic gradient;     // over the gradient group
  TensorTraffic tensor;      // over the tp group; without what is computed again
  SequenceTraffic sequence;  // over the sp group
  PipelineTraffic pipeline;
  Traffic tied;  // with the other end of the pipeline
};

// `spec` is resolved and valid; `segments`, by virtual stage, and `schedule` are its pipeline's.
RankCosts rank_costs(const JobSpec& spec,
                     const Schedule& schedule,
                     std::span<const SegmentRange> segments,
                     int stage);

}  // namespace llmtrain
