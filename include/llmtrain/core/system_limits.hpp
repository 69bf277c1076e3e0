#pragma once

#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// What this process may have, and which limit is behind a system call that failed: so that an error for lack
// of something says what is lacking, how much of it is allowed, where that is set, and what to do.
namespace llmtrain {

// "may have 256 open files ...: raise `ulimit -n`"; empty where an errno has nothing to do with limits or
// permissions.
std::string limit_behind(int error);

// The same for what a process has said about its own failure, whichever library it came from.
std::string limit_in_words(std::string_view words);

// "<what>: <the text of errno>", with limit_behind(errno) as its hint.
Error system_error(ErrorCode code, const std::string& what);
Error system_error(ErrorCode code, const std::string& what, int error);

}  // namespace llmtrain
