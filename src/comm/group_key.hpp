#pragma once

#include <string>

#include <fmt/format.h>

#include "llmtrain/comm/backends.hpp"

// Under which keys of the store the ranks of one group meet.
namespace llmtrain {

// Members of groups with one name never overlap: the first of them tells groups apart, and a key stays short
// however many ranks there are.
inline std::string group_key(const char* transport, const RemoteGroupOptions& options) {
  return fmt::format(
      "{}/{}/{}x{}/", transport, options.name, options.members.front(), options.members.size());
}

}  // namespace llmtrain
