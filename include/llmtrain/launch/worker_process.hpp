#pragma once

#include <memory>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/launch/subprocess.hpp"
#include "llmtrain/monitor/black_box.hpp"

// One rank as its agent holds it: the process, its black box, its control socket and its log files.
namespace llmtrain {

// A memory file that only inherited descriptors can reach, so that no run can leave one behind.
Result<UniqueFd> make_memory_file(const char* name, std::size_t bytes);

struct WorkerLaunch {
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments = {"worker"};  // after argv[0]; `--request-fd N` follows
  std::vector<std::string> environment;
  WorkerRequest request;  // all but its descriptors
  int shm_fd = -1;        // the agent's; -1 = none
  int store_fd = -1;      // the worker's end of its way to the key-value store; -1 = none
  std::string stdout_path;
  std::string stderr_path;
};

class WorkerProcess {
 public:
  static Result<WorkerProcess> start(const WorkerLaunch& launch);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  const std::string& stderr_path() const { return stderr_path_; }
  Subprocess& process() { return process_; }
  const Subprocess& process() const { return process_; }
  BlackBox& black_box() const { return *box_; }

  int control_fd() const { return control_.get(); }
  // Whole lines that have arrived since the last call; closes the socket at its end. Bounded: a line
  // longer than 1 MiB is dropped.
  std::vector<std::string> read_lines();

 private:
  struct Unmap {
    void operator()(BlackBox* box) const;
  };
  using BoxPointer = std::unique_ptr<BlackBox, Unmap>;
  WorkerProcess(const WorkerLaunch& launch, Subprocess process, UniqueFd control, BoxPointer box);

  int rank_;
  pid_t pid_;
  std::string stderr_path_;
  UniqueFd control_;
  BoxPointer box_;
  std::string pending_;    // the start of a line whose end has not arrived
  bool skipping_ = false;  // inside of a line that is too long
  Subprocess process_;     // last: it goes first
};

}  // namespace llmtrain
