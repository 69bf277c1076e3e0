#pragma once

#include <string>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// Who owns a run directory: a flock(2) on a file in it, held as long as the launch lives.
//
// The kernel lets go of it when the holder dies, however it dies, so a dead launch never blocks the
// next. The file's text (pid, host, start time) is only what a refusal shows; it decides nothing. The
// descriptor is close-on-exec: workers do not inherit the lock.
namespace llmtrain {

class RunLock {
 public:
  // Makes the file when it is missing; its directory must exist. kHeld names the holder.
  static Result<RunLock> acquire(const std::string& path);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace llmtrain
