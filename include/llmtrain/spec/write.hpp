#pragma once

#include <string>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/spec/yaml.hpp"

// A spec, or any tree, as text. What is written reads back as the same values, doubles bit for bit.
namespace llmtrain {

YamlNode to_tree(const JobSpec& spec);

std::string to_yaml(const YamlNode& tree);
std::string to_json(const YamlNode& tree);  // numbers and flags bare, all else as text

}  // namespace llmtrain
