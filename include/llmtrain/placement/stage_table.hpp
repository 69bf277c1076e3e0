#pragma once

#include <span>
#include <vector>

#include "llmtrain/placement/parameter_table.hpp"
#include "llmtrain/placement/stage_cut.hpp"

// The part of the placement table that one pipeline stage holds.
//
// Segments keep their numbers and parameters their names. A head that is tied to an embedding on another
// stage computes with a copy of the embedding's segment: it is listed here as well, marked as a copy, so that
// the holder alone counts it in norms and writes it to disk. It knows no schedule and no memory.
namespace llmtrain {

// `chunks`: the segments of each piece of the model on the stage, in the order of the model.
std::vector<ParamSpec> stage_table(const std::vector<ParamSpec>& table, std::span<const SegmentRange> chunks);

}  // namespace llmtrain
