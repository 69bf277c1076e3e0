#pragma once

#include <optional>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/train/rank_context.hpp"

// The peak that MFU is measured against on a CPU: FLOP/s of a large matrix product with this rank's threads.
namespace llmtrain {

// What the spec says, or what an earlier start measured on this host; absent: unknown.
std::optional<double> known_peak(const RankContext& context);

// Takes about a tenth of a second, and remembers the result in the run directory.
double measure_and_store_peak(RankContext& context);

// The measurement itself.
double measure_peak_flops(DType dtype);

}  // namespace llmtrain
