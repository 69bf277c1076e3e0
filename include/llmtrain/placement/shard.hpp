#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/placement/parameter_table.hpp"

// Which part of a parameter a tensor-parallel rank holds: pure arithmetic on the placement table.
//
// A dimension is cut into units (heads, or single rows), and every rank gets a run of whole ones. Nothing is
// padded: where units do not divide, the later ranks hold one more. Where there are fewer units than ranks,
// neighbouring ranks hold the same one. It knows no memory and no process.
namespace llmtrain {

// Where a rank stands in its tensor-parallel group.
struct TensorPlace {
  int rank = 0;
  int size = 1;
};

struct ParamShard {
  std::vector<std::int64_t> offset;  // global coordinates of its first element
  std::vector<std::int64_t> extent;  // its shape
  int replica = 0;                   // position among the ranks that hold the same part
  int replicas = 1;

  // Flattened, the shard is made of runs that are contiguous in the flattened parameter.
  std::int64_t first = 0;   // global index of its first element
  std::int64_t run = 0;     // elements of a run
  std::int64_t stride = 0;  // from one run to the next in the parameter

  std::int64_t numel() const;
  std::int64_t global_index(std::int64_t local) const { return first + local / run * stride + local % run; }
  // Among the ranks that hold these values, one counts them in norms and writes them to disk.
  bool is_counted() const { return replica == 0; }
};

// Throws CheckFailure when fewer units than ranks do not divide them: validate refuses such a job.
ParamShard shard_of(const ParamSpec& param, TensorPlace place);

// How many neighbouring ranks of a tensor-parallel group share a key/value head; 1 when there are enough.
int kv_head_replicas(const ModelSpec& model, int tp);

}  // namespace llmtrain
