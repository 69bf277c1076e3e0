#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/comm/call_faults.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/spec/job_spec.hpp"

// Fault hooks of one rank: what `faults:` in the job spec asks for, done at the named point.
//
// Product code, off by default and free when the list is empty: drills, tests and rehearsals make a rank die
// in one of many ways, stop, sleep, throw, err in a collective, fail to write or produce a NaN at an exact
// place. It never decides what happens next. What agents do to themselves (drop_heartbeats) is theirs.
namespace llmtrain {

// What `kind: throw` raises.
class InjectedFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FaultInjector {
 public:
  FaultInjector(std::vector<FaultSpec> faults, int rank, int incarnation);

  // Fires every matching hook; most end or stop this process, sleep sleeps, throw throws.
  void at(std::string_view point, std::int64_t step);
  // What communication does before it waits: nothing (null), or with a `jitter` hook a random wait now and
  // then. The waits are a function of seed, rank and count. For any number of threads.
  std::function<void()> jitter() const;
  // What errs in the next collective once a hook arms it; null without such a hook for this rank.
  const std::shared_ptr<CallFaults>& call_faults() const { return call_faults_; }
  // The files of a save of `step`: the system's, and on a disk that fails with a matching `io` hook.
  std::unique_ptr<FileSystem> filesystem(std::int64_t step) const;
  // True if a `nan` hook matches: the caller poisons its gradient.
  bool wants_nan(std::string_view point, std::int64_t step) const;

 private:
  bool is_here(const FaultSpec& fault) const;
  void fire(const FaultSpec& fault, std::string_view point, std::int64_t step) const;
  bool matches(const FaultSpec& fault, std::string_view point, std::int64_t step) const;

  std::vector<FaultSpec> faults_;
  int rank_;
  int incarnation_;
  std::shared_ptr<CallFaults> call_faults_;
};

}  // namespace llmtrain
