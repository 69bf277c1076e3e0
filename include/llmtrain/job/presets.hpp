#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/spec/yaml.hpp"

// Known models by size, and what each family takes for granted; both as data in the form of a job's
// `model` section, so that precedence is merging: family, then preset, then the user's own fields.
namespace llmtrain {

// Absent when there is no such preset or family.
std::optional<YamlNode> preset_fields(std::string_view name);
std::optional<YamlNode> family_fields(std::string_view name);

std::vector<std::string_view> preset_names();

// Puts the defaults of preset and family beneath the `model` section of `root`.
void apply_preset(YamlNode& root, Diagnostics& diagnostics);

}  // namespace llmtrain
