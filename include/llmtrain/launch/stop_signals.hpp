#pragma once

#include <optional>
#include <string>

#include <signal.h>

#include "llmtrain/core/unique_fd.hpp"

// TERM, INT and USR1 as a descriptor to poll, instead of handlers that interrupt.
//
// They are blocked in the calling thread as long as the object lives; threads and children started
// meanwhile inherit that.
namespace llmtrain {

class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_.get(); }
  // The name of the next signal that has come ("SIGTERM"); absent: none is waiting.
  std::optional<std::string> take();

 private:
  sigset_t before_;
  UniqueFd fd_;
};

}  // namespace llmtrain
