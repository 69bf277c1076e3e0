#pragma once

#include <cstdint>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/sizing/memory.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What a rank of an sp group must give to its group inside attention, in closed form.
//
// Keys and values travel in the compute type, their gradients in the type of main gradients (ulysses sends
// all in the compute type). Per block, of sp ranks with t own tokens: ring sends its block sp - 1 times
// forward and again backward, and its gradients sp times, the last time home; allgather gives its part twice
// and the gradients of everything once; ulysses changes queries, keys, values and the output over, and back.
// Where a block is computed again in backward, its attention's forward traffic comes again.
// It knows no time and no overlap.
namespace llmtrain {

struct SequenceTraffic {
  Traffic send_recv{};
  Traffic all_gather{};
  Traffic reduce_scatter{};
  Traffic all_to_all{};

  SequenceTraffic& operator+=(const SequenceTraffic& other);
  friend bool operator==(const SequenceTraffic&, const SequenceTraffic&) = default;
};

struct SequencePass {
  SequenceMethod method = SequenceMethod::kRing;
  DType compute = DType::kFp32;
  int sp = 2;
  int tp = 1;
  std::int64_t tokens = 0;      // of the micro-batch, on one rank
  std::int64_t recomputed = 0;  // blocks, selectively or in full
};

// Forward and backward of one micro-batch.
SequenceTraffic training_traffic(const ModelSpec& model, const SequencePass& pass);
// Forward alone, as evaluation does.
SequenceTraffic forward_traffic(const ModelSpec& model, const SequencePass& pass);

}  // namespace llmtrain
