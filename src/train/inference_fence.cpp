#include "llmtrain/train/inference_fence.hpp"

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/train/error.hpp"

namespace llmtrain {

int fenced(const char* command, const std::function<void()>& body) {
  try {
    body();
    return to_int(ExitCode::kDone);
  } catch (const ErrorException& error) {
    fmt::print(stderr, "llmtrain {}: {}\n", command, error.what());
    return to_int(exit_code_for(error.error().code));
  } catch (const std::exception& error) {
    fmt::print(stderr, "llmtrain {}: {}\n", command, error.what());
    return to_int(ExitCode::kInternal);
  }
}

}  // namespace llmtrain
