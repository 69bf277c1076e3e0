#pragma once

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/tensor/tensor.hpp"

// Rotary position tables, built in fp64 and rounded once.
//
// Layout as in Hugging Face checkpoints: pairs (i, i + d/2). Angles never pass through a narrow type, so
// positions do not alias under bf16: the tables stay in the accumulation type.
namespace llmtrain {

struct RopeTables {
  at::Tensor cosines;  // [positions, d/2]
  at::Tensor sines;    // [positions, d/2]
  bool defined() const { return cosines.defined(); }
};

// Inverse frequency of pair i after scaling, in fp64.
double rope_inverse_frequency(const ModelSpec& model, std::int64_t pair);

RopeTables rope_tables(const ModelSpec& model, std::int64_t positions, DType type);
// Those that a model computes with, in the type for it; undefined where it has no rotary positions.
RopeTables position_tables(const ModelSpec& model, std::int64_t positions, DType compute);

}  // namespace llmtrain
