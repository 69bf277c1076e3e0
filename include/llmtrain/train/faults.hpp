#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/spec/job_spec.hpp"

// Fault hooks of one rank: what `faults:` in the job spec asks for, done at the named point.
//
// Product code, off by default and free when the list is empty: drills, tests and rehearsals make a
// rank die, stop, sleep, throw or produce a NaN at an exact place. It never decides what happens next.
namespace llmtrain {

// What `kind: throw` raises.
class InjectedFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FaultInjector {
 public:
  FaultInjector(std::vector<FaultSpec> faults, int rank, int incarnation);

  // Fires every matching hook: kill and stop signal this process, sleep sleeps, throw throws.
  void at(std::string_view point, std::int64_t step);
  // What communication does before it waits: nothing (null), or with a `jitter` hook a random wait now and
  // then. The waits are a function of seed, rank and count. For any number of threads.
  std::function<void()> jitter() const;
  // True if a `nan` hook matches: the caller poisons its gradient.
  bool wants_nan(std::string_view point, std::int64_t step) const;

 private:
  bool matches(const FaultSpec& fault, std::string_view point, std::int64_t step) const;

  std::vector<FaultSpec> faults_;
  int rank_;
  int incarnation_;
};

}  // namespace llmtrain
