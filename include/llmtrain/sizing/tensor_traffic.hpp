#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/sizing/memory.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What a tensor-parallel rank must give to the collectives of its group, in closed form.
//
// Activations cross the border of a block's two halves once forward and once backward, the embedding's border
// forward and the head's backward; a token's loss takes three numbers. With a sharded sequence every crossing
// is one gather and one scattered sum, and the input of a column-parallel layer is gathered again for its
// weight gradient, so that it need not be kept. A block that is computed again in full crosses its forward
// borders again, all but the last; in other modes of recompute nothing crosses again. Where a crossing
// overlaps with a product it goes in chunks: the same bytes in more calls. It knows no time.
namespace llmtrain {

struct TensorTraffic {
  Traffic all_reduce{};
  Traffic all_gather{};
  Traffic reduce_scatter{};

  TensorTraffic& operator+=(const TensorTraffic& other);
  friend bool operator==(const TensorTraffic&, const TensorTraffic&) = default;
};

struct TensorPass {
  DType compute = DType::kFp32;
  int tp = 2;
  bool shard_sequence = false;
  std::int64_t tokens = 0;              // of the micro-batch
  std::int64_t chunk_tokens = 0;        // whose losses are taken at a time
  std::int64_t recomputed_in_full = 0;  // blocks
  std::int64_t overlap_chunks = 1;      // parallelism.tp_overlap_chunks
  bool has_embedding = true;  // of a pipeline stage; its layers are those of the model it is given with
  bool has_head = true;
};

// Forward and backward of one micro-batch.
TensorTraffic training_traffic(const ModelSpec& model, const TensorPass& pass);
// Forward alone, as evaluation does.
TensorTraffic forward_traffic(const ModelSpec& model, const TensorPass& pass);

// Once a step: gradients that replicas see parts of, and the norm of the gradient.
struct ReplicaTraffic {
  Traffic group{};     // all_reduce over the tp group
  Traffic replicas{};  // all_reduce over its ranks that share a key/value head

  friend bool operator==(const ReplicaTraffic&, const ReplicaTraffic&) = default;
};

ReplicaTraffic replica_traffic(const std::vector<ParamSpec>& table, DType compute, int tp);

}  // namespace llmtrain
