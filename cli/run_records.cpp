#include "run_records.hpp"

#include <chrono>
#include <filesystem>
#include <thread>

#include "llmtrain/report/liveness.hpp"

namespace llmtrain::cli {
namespace fs = std::filesystem;

Status check_run_dir(const std::string& path) {
  const RunDir run(path);
  std::error_code error;
  if (!fs::is_directory(path, error))
    return Error{ErrorCode::kNotFound,
                 path + (error ? " cannot be looked at: " + error.message() : " is no directory"),
                 "give the run.dir of a job"};
  for (const auto& file : {run.source_spec(), run.metrics(), run.events(), run.control()})
    if (fs::exists(file, error)) return ok_status();
  return Error{ErrorCode::kNotFound,
               path + " is no run directory: it holds no spec.source.yaml, metrics.jsonl or events.jsonl",
               "give the run.dir of a job"};
}

bool is_live(FileSystem& files, const RunDir& run) {
  const LockState lock = look_at_lock((run.control() / "lock").string());
  if (lock == LockState::kHeld) return true;
  // A launch on another machine shows by its lease, which it renews twice a second.
  const std::string before = heartbeat(files, run);
  if (before.empty()) return false;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::string after = heartbeat(files, run);
    if (!after.empty() && after != before) return true;
  }
  return false;
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace llmtrain::cli
