#pragma once

#include <string>

#include "llmtrain/train/rank_context.hpp"

// What this process computes with: its threads, and the instruction set that libtorch chose. Both are
// recorded in every checkpoint, since bits are promised for the same of both only.
namespace llmtrain {

// train.compute_threads, or this rank's share of the cores that this process may use.
int compute_threads(const RankContext& context);
// Cores that this process may run on.
int usable_cores();
// Makes libtorch use them, in this process and in threads it starts later.
void set_compute_threads(int threads);

// "AVX512", "AVX2", "DEFAULT", ...
std::string cpu_capability();

}  // namespace llmtrain
