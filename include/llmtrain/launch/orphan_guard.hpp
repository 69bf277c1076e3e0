#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// A small process beside the agent that outlives it by a moment.
//
// Workers die with their agent. What they have started does not, and an agent that is killed cannot clean up:
// so workers carry a mark in their environment, which their children inherit, and when the agent is gone
// without having said so the guard kills whatever carries the mark. An agent that ends in order does that
// itself (kill_adopted_orphans). A process that has cleared its environment is not found.
namespace llmtrain {

class OrphanGuard {
 public:
  // Start it from the main thread, before there are others.
  static Result<OrphanGuard> start();
  OrphanGuard(OrphanGuard&& other) noexcept
      : mark_(std::move(other.mark_)), pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)) {}
  OrphanGuard& operator=(OrphanGuard&&) = delete;
  ~OrphanGuard();  // the agent ends in order

  const std::string& mark() const { return mark_; }  // "NAME=value", for the environment of the workers
  pid_t pid() const { return pid_; }

 private:
  OrphanGuard(std::string mark, pid_t pid, UniqueFd pipe)
      : mark_(std::move(mark)), pid_(pid), pipe_(std::move(pipe)) {}

  std::string mark_;
  pid_t pid_;
  UniqueFd pipe_;  // its end is the agent's
};

// Live processes that have `entry` ("NAME=value") in their environment, as far as we may read it.
std::vector<pid_t> processes_marked(std::string_view entry);

}  // namespace llmtrain
