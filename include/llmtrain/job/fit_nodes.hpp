#pragma once

#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"

// A job on another number of nodes than it was cut for: what is left of them, or more again.
//
// The data-parallel axis takes the difference, and the global batch stays what it was by another number of
// micro-batches, so that samples and steps mean the same. Everything else is as it was; whether to shrink at
// all is decided elsewhere.
namespace llmtrain {

// `resolved` as the run began, whatever it ran on since. Fails, and says what would fit, when the ranks of
// `nodes` nodes are no multiple of pp x sp x tp, or the global batch cannot be dealt out to them.
Result<JobSpec> fit_to_nodes(const JobSpec& resolved, int nodes);

}  // namespace llmtrain
