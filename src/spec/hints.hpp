#pragma once

#include <string>

namespace llmtrain {

// What to say about the key `key` in the section `path` (empty = top level), which has no such field:
// where it belongs, which key was probably meant, or which keys there are.
std::string unknown_key_hint(const std::string& path, const std::string& key);

}  // namespace llmtrain
