#pragma once

#include <optional>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/spec/yaml.hpp"

namespace llmtrain {

// Fills every optional of `spec` that has an `auto`: sizes of the model, layout, batch, types, pipeline.
// Arithmetic that does not come out is reported with the numbers spelt out; `spec` then holds a usable
// stand-in. `tree` says where values were written. `procs_per_node` wins over the spec's.
void resolve(JobSpec& spec,
             const YamlNode& tree,
             std::optional<int> procs_per_node,
             bool cuda_available,
             Diagnostics& diagnostics);

// The part of it that is about pipelines; the model's sizes must be final.
void resolve_pipeline(JobSpec& spec, const YamlNode& tree, Diagnostics& diagnostics);

}  // namespace llmtrain
