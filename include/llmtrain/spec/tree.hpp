#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/spec/yaml.hpp"

// Work on trees before they are typed: paths, merging, --set, interpolation.
namespace llmtrain {

// One step of "data.train[0].path": a key, or an index into a list.
struct PathStep {
  std::string key;
  std::optional<std::size_t> index;  // when set, `key` is empty
};
// Absent when the text is no path (empty parts, bad brackets).
std::optional<std::vector<PathStep>> parse_path(const std::string& path);

// The node at `path`, or null.
const YamlNode* find_path(const YamlNode& root, const std::string& path);
// Where the value of `path` was written; when the tree does not name it, the nearest section around it.
Origin origin_of(const YamlNode& root, const std::string& path);

// Maps merge key by key, deeply; anything else is replaced. An empty section changes nothing.
void merge(YamlNode& base, const YamlNode& over);

// Applies "a.b=c" to the job called `job`; messages name both as their origin.
void apply_override(YamlNode& root,
                    const std::string& argument,
                    const std::string& job,
                    Diagnostics& diagnostics);

// Replaces ${a.b} and ${env:X} in every scalar; `$${` stands for `${`. A path that `root` does not name is
// looked up in `defaults`.
void interpolate(YamlNode& root,
                 const YamlNode& defaults,
                 const std::map<std::string, std::string>& env,
                 Diagnostics& diagnostics);

}  // namespace llmtrain
