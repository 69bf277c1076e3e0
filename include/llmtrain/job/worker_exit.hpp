#pragma once

#include <string_view>

#include "llmtrain/core/exit_code.hpp"

// How a worker process tells its agent why it left.
//
// A worker ends with 0, with one of the codes of core/exit_code.hpp, or with one of these, which are
// spoken between worker and agent only: the supervisor maps them to actions and to the job's code.
// `kInternal` (an exception that nobody expected) may be tried again; spec, data, storage and
// divergence may not.
namespace llmtrain {

enum class WorkerExit : int {
  kLostPeer = 80,        // a collective ended because other ranks are gone or did not arrive
  kStoppedSaved = 81,    // stopped on request at a step boundary; that step is committed
  kStoppedUnsaved = 82,  // stopped on request; the last step could not be committed
};

constexpr int to_int(WorkerExit code) {
  return static_cast<int>(code);
}

// "lost a peer", "spec error", ...; empty for a number that no worker of ours uses.
constexpr std::string_view describe_worker_exit(int code) {
  switch (code) {
    case to_int(ExitCode::kDone): return "finished";
    case to_int(ExitCode::kUsage): return "spec or usage error";
    case to_int(ExitCode::kPreflight): return "this node cannot run the job";
    case to_int(ExitCode::kNoCheckpoint): return "no usable checkpoint";
    case to_int(ExitCode::kHang): return "hang";
    case to_int(ExitCode::kInternal): return "internal error";
    case to_int(ExitCode::kDiverged): return "diverged";
    case to_int(ExitCode::kStorage): return "storage error";
    case to_int(ExitCode::kData): return "data error";
    case to_int(ExitCode::kCorruptionSuspected): return "corruption suspected";
    case to_int(WorkerExit::kLostPeer): return "lost a peer";
    case to_int(WorkerExit::kStoppedSaved): return "stopped, saved";
    case to_int(WorkerExit::kStoppedUnsaved): return "stopped, not saved";
  }
  return "";
}

}  // namespace llmtrain
