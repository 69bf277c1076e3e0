#pragma once

#include <cstddef>
#include <string>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/spec/yaml.hpp"

// Fills a spec from a tree: types, ranges and names of single fields. What fields mean together is
// for `job` to judge.
namespace llmtrain {

inline constexpr std::size_t kMaxText = 1 << 18;  // characters of one text, which may be a pipeline schedule

// Fields that the tree does not name keep the value they have in `spec`. Every violation is reported;
// a field with a violation keeps its value too.
void read_spec(const YamlNode& tree, JobSpec& spec, Diagnostics& diagnostics);

}  // namespace llmtrain
