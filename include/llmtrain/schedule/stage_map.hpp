#pragma once

#include <vector>

// Which stage holds which piece of the model.
//
// The model is cut into virtual stages, 0 at its input. Each of the pp stages holds equally many of them: its
// chunks, numbered in the order of the model. How many layers a piece has is not known here.
namespace llmtrain {

struct Site {
  int stage = 0;
  int chunk = 0;
  friend constexpr bool operator==(const Site&, const Site&) = default;
};

class StageMap {
 public:
  // Virtual stage s lies on stage s mod num_stages: round after round in one direction.
  static StageMap loop(int num_stages, int num_chunks);
  // Two chunks a stage, down and back up: stage i holds i and 2 num_stages - 1 - i, and the first stage both
  // ends.
  static StageMap vee(int num_stages);
  // stage_of[s] holds virtual stage s. Every stage from 0 to the largest must occur equally often.
  explicit StageMap(const std::vector<int>& stage_of);

  int num_stages() const { return static_cast<int>(virtual_stages_.size()); }
  int num_chunks() const { return static_cast<int>(virtual_stages_.front().size()); }  // of each stage
  int num_virtual_stages() const { return static_cast<int>(sites_.size()); }

  int virtual_stage(Site site) const {
    return virtual_stages_[static_cast<std::size_t>(site.stage)][static_cast<std::size_t>(site.chunk)];
  }
  Site site(int virtual_stage) const { return sites_[static_cast<std::size_t>(virtual_stage)]; }
  // The virtual stages of one stage, in the order of its chunks.
  const std::vector<int>& virtual_stages(int stage) const {
    return virtual_stages_[static_cast<std::size_t>(stage)];
  }

 private:
  std::vector<Site> sites_;                       // [virtual stage]
  std::vector<std::vector<int>> virtual_stages_;  // [stage][chunk]
};

}  // namespace llmtrain
