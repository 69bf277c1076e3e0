#pragma once

#include <optional>
#include <string>
#include <vector>

#include <signal.h>

#include "llmtrain/core/unique_fd.hpp"

// The signals that ask for an orderly stop (launch.stop_signals) as a descriptor to poll, instead of handlers
// that interrupt.
//
// They are blocked in the calling thread as long as the object lives, and threads started meanwhile inherit
// that. Of the signals that are not in the list, TERM, INT and HUP do what they always do: the agent ends at
// once, its workers with it, and the steps since the newest checkpoint are made again by the next launch. So
// there is always a way to end a job. USR1 and USR2 would end it as well and mean nothing of the kind:
// without being in the list they are taken and forgotten.
namespace llmtrain {

class StopSignals {
 public:
  explicit StopSignals(const std::vector<int>& signals);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  int fd() const { return fd_.get(); }
  // The name of the next signal of the list that has come ("SIGTERM"); absent: none is waiting.
  std::optional<std::string> take();

 private:
  sigset_t before_;
  sigset_t stops_;
  UniqueFd fd_;
};

}  // namespace llmtrain
