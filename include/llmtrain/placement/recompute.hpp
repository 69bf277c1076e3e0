#pragma once

#include <algorithm>
#include <cstdint>

#include "llmtrain/spec/job_spec.hpp"

// Which blocks of a pipeline chunk are computed again in backward: all of them, or the first.
namespace llmtrain {

constexpr std::int64_t recomputed_blocks(const MemorySpec& memory, std::int64_t blocks_of_chunk) {
  if (memory.recompute == Recompute::kNone) return 0;
  return std::min(memory.recompute_layers.value_or(blocks_of_chunk), blocks_of_chunk);
}

// `block` counts from the start of its chunk.
constexpr Recompute recompute_of(const MemorySpec& memory, std::int64_t block) {
  return block < memory.recompute_layers.value_or(block + 1) ? memory.recompute : Recompute::kNone;
}

}  // namespace llmtrain
