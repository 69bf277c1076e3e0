#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"

// Host lists as Slurm and people write them: `n[1-3,07-09],gpu-[a,b]x[01-02]-ib0` is ten names.
//
// Text in, names out, in the order written; nothing is sorted, resolved or asked of a scheduler. The text
// comes from outside, so its length, the number of names and the depth of brackets are bounded before
// anything is expanded.
namespace llmtrain {

inline constexpr std::size_t kMaxHostlistBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMaxHosts = 65'536;
inline constexpr std::size_t kMaxHostNameBytes = 255;

// A range keeps the width of its first number: `[08-10]` is 08, 09, 10 and `[8-10]` is 8, 9, 10. Several
// brackets in one name multiply, the last one fastest. Brackets may hold names with brackets of their own.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// Names one a line (blank lines and `#` comments aside), each line a host list of its own; or Slurm's
// topology.conf, of which the `Nodes=` of the leaf switches count, in the order of the file.
Result<std::vector<std::string>> parse_node_order(std::string_view text, const std::string& origin);

}  // namespace llmtrain
