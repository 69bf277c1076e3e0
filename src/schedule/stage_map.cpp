#include "llmtrain/schedule/stage_map.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

StageMap StageMap::loop(int num_stages, int num_chunks) {
  std::vector<int> stage_of;
  for (int chunk = 0; chunk < num_chunks; ++chunk)
    for (int stage = 0; stage < num_stages; ++stage) stage_of.push_back(stage);
  return StageMap(stage_of);
}

StageMap StageMap::vee(int num_stages) {
  std::vector<int> stage_of;
  stage_of.reserve(2 * static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) stage_of.push_back(stage);
  for (int stage = num_stages - 1; stage >= 0; --stage) stage_of.push_back(stage);
  return StageMap(stage_of);
}

StageMap::StageMap(const std::vector<int>& stage_of) {
  LLMTRAIN_CHECK(!stage_of.empty(), "a model without stages");
  const int num_stages = *std::max_element(stage_of.begin(), stage_of.end()) + 1;
  virtual_stages_.resize(static_cast<std::size_t>(num_stages));
  for (int s = 0; s < static_cast<int>(stage_of.size()); ++s) {
    auto& held = virtual_stages_[static_cast<std::size_t>(stage_of[static_cast<std::size_t>(s)])];
    sites_.push_back({stage_of[static_cast<std::size_t>(s)], static_cast<int>(held.size())});
    held.push_back(s);
  }
  for (const auto& held : virtual_stages_)
    LLMTRAIN_CHECK(held.size() == virtual_stages_.front().size(),
                   "a stage with {} virtual stages beside one with {}",
                   held.size(),
                   virtual_stages_.front().size());
}

}  // namespace llmtrain
