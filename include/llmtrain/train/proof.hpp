#pragma once

#include <vector>

#include "llmtrain/core/plant.hpp"
#include "llmtrain/job/verdict.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/train/proof_reference.hpp"

// A proof in its two halves: what one rank computes in every step of a job, remembered, and the ranks of the
// job's layout, each held against it.
//
// Jobs are resolved, in fp64, and small enough to run here as threads (job/shrink_job.hpp makes them so).
namespace llmtrain {

// Of every step. The layout of `spec` plays no part: jobs that differ in nothing else share the result.
std::vector<ProofReference> compute_reference(const JobSpec& spec);

// Every rank compares what it holds; nothing is sent for it.
Verdict compare_ranks(const JobSpec& spec,
                      const std::vector<ProofReference>& reference,
                      double tolerance,
                      Plant plant = Plant::kNone);

}  // namespace llmtrain
