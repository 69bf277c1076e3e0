#pragma once

#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"

// Does a launch live on a run directory? Asked without taking anything from it.
namespace llmtrain {

enum class LockState {
  kHeld,     // a process of this machine holds the run lock
  kFree,     // nobody on this machine does; another machine may
  kUnknown,  // the system does not tell
};

// Looks the lock up in the kernel's table, so that a launch that begins at this moment is not refused because
// somebody looked.
LockState look_at_lock(const std::string& path);
// The judgement behind it: `table` is the text of /proc/locks.
bool holds_lock(const std::string& table, unsigned major, unsigned minor, unsigned long inode);

// What a live launch keeps changing: its lease and its status. Two looks that differ mean it lives, wherever
// it runs; the clock of its host plays no part. Empty: there is neither.
std::string heartbeat(FileSystem& files, const RunDir& run);

}  // namespace llmtrain
