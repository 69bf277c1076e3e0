#pragma once

#include <functional>

namespace llmtrain {

// Runs the body of a command that computes outside of a job; its exceptions become one line on stderr
// and an exit code.
int fenced(const char* command, const std::function<void()>& body);

}  // namespace llmtrain
