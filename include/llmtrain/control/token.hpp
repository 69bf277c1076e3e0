#pragma once

#include <string>

#include "llmtrain/core/result.hpp"

// The secret of one run, in a file that only its owner can read. Nodes that share the run directory share it.
namespace llmtrain {

// The token in `path`, without the line's end; a file that others can read is refused.
Result<std::string> read_token(const std::string& path);
// Reads it, or makes it with mode 0600; of several nodes that try at once one makes it and all get the same.
Result<std::string> make_or_read_token(const std::string& path);

}  // namespace llmtrain
