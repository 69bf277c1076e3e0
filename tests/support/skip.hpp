#pragma once

#include <cstdio>
#include <cstdlib>

namespace llmtrain::test {

// Ends the whole executable as skipped (CTest's SKIP_RETURN_CODE): for tests that share one condition.
[[noreturn]] inline void skip_executable(const char* reason) {
  std::fprintf(stderr, "skipped: %s\n", reason);
  std::_Exit(77);
}

}  // namespace llmtrain::test
