#pragma once

#include "llmtrain/core/result.hpp"

// The exit codes of `llmtrain`: an interface that schedulers, scripts and people rely on.
//
// Every command maps its failure to one of these; a signal that ends a process is 128 + its number.
// Worker-only codes are another enum (worker_exit.hpp) that the supervisor's table turns into actions.
namespace llmtrain {

enum class ExitCode : int {
  kDone = 0,
  kDifferent = 1,       // compared or checked, and found different or damaged
  kUsage = 2,           // command line or job spec
  kPreflight = 64,      // this node cannot run the job
  kNoCheckpoint = 65,   // no usable checkpoint
  kRestartBudget = 66,  // restart budget spent
  kNoProgress = 67,     // crash loop: restarts without a new step
  kHang = 68,           // hung, and could not recover in place
  kHeld = 69,           // fenced, or the run directory is held by a live launch
  kInternal = 70,
  kDiverged = 71,  // non-finite or diverged, and the policy says stop
  kStorage = 72,   // run directory unwritable or full, or the final save failed
  kData = 73,
  kPreempted = 75,            // stopped on request, checkpoint committed: requeue
  kPreemptedUnsaved = 76,     // stopped on request, last step not committed
  kCorruptionSuspected = 77,  // silent corruption suspected
};

constexpr int to_int(ExitCode code) {
  return static_cast<int>(code);
}

constexpr ExitCode exit_code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage:
    case ErrorCode::kInvalidSpec:
    case ErrorCode::kUnsupported:
    case ErrorCode::kNotFound: return ExitCode::kUsage;
    case ErrorCode::kCorrupt: return ExitCode::kDifferent;
    case ErrorCode::kData: return ExitCode::kData;
    case ErrorCode::kNoCheckpoint: return ExitCode::kNoCheckpoint;
    case ErrorCode::kHeld: return ExitCode::kHeld;
    case ErrorCode::kPreflight: return ExitCode::kPreflight;
    case ErrorCode::kIo:
    case ErrorCode::kStorage: return ExitCode::kStorage;
    case ErrorCode::kTimeout:
    case ErrorCode::kPeerLost: return ExitCode::kHang;
    case ErrorCode::kInternal: return ExitCode::kInternal;
  }
  return ExitCode::kInternal;
}

}  // namespace llmtrain
