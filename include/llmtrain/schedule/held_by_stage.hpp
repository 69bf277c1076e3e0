#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "llmtrain/schedule/stage_map.hpp"

namespace llmtrain {

// Of things that are listed by virtual stage, those of one stage, in the order of its chunks.
template <class T>
std::vector<T> held_by_stage(const StageMap& map, std::span<const T> by_virtual_stage, int stage) {
  std::vector<T> held;
  for (const int virtual_stage : map.virtual_stages(stage))
    held.push_back(by_virtual_stage[static_cast<std::size_t>(virtual_stage)]);
  return held;
}

}  // namespace llmtrain
