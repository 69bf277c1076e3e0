#pragma once

#include <span>
#include <string_view>

#include "llmtrain/spec/yaml.hpp"

// Names that other trainers use for our fields, accepted with a note.
namespace llmtrain {

// `from` without a dot is accepted at the top level and in the section of `to`; with one, only there.
struct Alias {
  std::string_view from;
  std::string_view to;
};

std::span<const Alias> aliases();

// Moves every aliased key to its canonical place, with a warning; a field given under two names is an error.
void rename_aliases(YamlNode& root, Diagnostics& diagnostics);

}  // namespace llmtrain
