#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/plant.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"

// The catalogue of planted bugs: their names, what each does wrong, and what a job needs to have room for it.
//
// It plants nothing; the lines that do lie where a bug of that kind would lie.
namespace llmtrain {

struct PlantEntry {
  Plant plant = Plant::kNone;
  std::string_view name;
  std::string_view text;  // one line
  // What a job must be given so that the bug can act, as --set; nothing when it has room already. The spec is
  // resolved.
  std::vector<std::string> (*room)(const JobSpec& spec) = nullptr;
};

std::span<const PlantEntry> plants();

// kUsage, with the names that there are, for another one.
Result<PlantEntry> find_plant(const std::string& name);

}  // namespace llmtrain
