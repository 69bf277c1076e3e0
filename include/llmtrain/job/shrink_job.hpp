#pragma once

#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/topology/mesh.hpp"

// A job made so small that this host proves it in seconds: the same layout, family and features on a few
// numbers.
//
// Sizes keep their kind: what divides a degree still divides it, what does not still does not; heads that
// ranks share are still shared, grouped ones grouped. It reads synthetic documents, computes in fp64 on the
// CPU, and writes, evaluates and injects nothing. Pure functions of a resolved spec.
namespace llmtrain {

inline constexpr int kProofRanks = 64;  // at most, on any host
inline constexpr int kProofSteps = 3;

// Degrees shrink only as far as they must: dp to `smallest_dp`, then pp to 4, sp to 2, tp to 4; none above 1
// becomes 1. kPreflight when that is not enough.
Result<MeshShape> shrink_mesh(MeshShape mesh, int max_ranks, int smallest_dp = 2);

// The result is resolved and keeps every rule of the format.
Result<JobSpec> shrink_job(const JobSpec& spec, int max_ranks);

// The same global batch on one rank, without any parallelism and nothing computed twice: what a layout is
// compared with.
JobSpec one_rank_job(JobSpec spec);

}  // namespace llmtrain
