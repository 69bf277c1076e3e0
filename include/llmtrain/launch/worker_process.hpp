#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/launch/subprocess.hpp"
#include "llmtrain/logs/log_capture.hpp"
#include "llmtrain/monitor/black_box.hpp"

// One rank as its agent holds it: the process, its black box, its control socket and its output.
//
// stdout and stderr are pipes, two descriptors of the agent for each worker. What a worker writes while its
// agent stands still stays in the pipe (64 KiB), and then the worker waits: nothing is lost, and a worker
// that talks does not get ahead of an agent that is stopped.
namespace llmtrain {

// A memory file that only inherited descriptors can reach, so that no run can leave one behind.
Result<UniqueFd> make_memory_file(const char* name, std::size_t bytes);

enum class WorkerStream { kOut, kErr };

struct WorkerLaunch {
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments = {"worker"};  // after argv[0]; `--request-fd N` follows
  std::vector<std::string> environment;
  WorkerRequest request;  // all but its descriptors
  int shm_fd = -1;        // the agent's; -1 = none
  int store_fd = -1;      // the worker's end of its way to the key-value store; -1 = none
  std::string stdout_path;
  std::string stderr_path;
  LogWriter* logs = nullptr;  // writes them
  LogLimits log;
  // Gets the lines of both streams as they are read; must outlive the worker.
  std::function<void(WorkerStream, std::string_view)> line;
};

class WorkerProcess {
 public:
  static Result<WorkerProcess> start(const WorkerLaunch& launch);

  int rank() const { return rank_; }
  pid_t pid() const { return pid_; }
  Subprocess& process() { return process_; }
  const Subprocess& process() const { return process_; }
  BlackBox& black_box() const { return *box_; }

  int control_fd() const { return control_.get(); }
  // Whole lines that have arrived since the last call; closes the socket at its end. Bounded: a line
  // longer than 1 MiB is dropped.
  std::vector<std::string> read_lines();

  // What it writes: read without waiting, or to the end once it has ended.
  int stdout_fd() const { return out_.fd(); }
  int stderr_fd() const { return err_.fd(); }
  void pump_output(StormGate::Instant now);
  void finish_output(StormGate::Instant now);
  const LogCapture& stderr_log() const { return err_; }

 private:
  struct Unmap {
    void operator()(BlackBox* box) const;
  };
  using BoxPointer = std::unique_ptr<BlackBox, Unmap>;
  struct Output {
    LogCapture out, err;
  };
  WorkerProcess(int rank, Subprocess process, UniqueFd control, BoxPointer box, Output output);

  int rank_;
  pid_t pid_;
  LogCapture out_, err_;
  UniqueFd control_;
  BoxPointer box_;
  std::string pending_;    // the start of a line whose end has not arrived
  bool skipping_ = false;  // inside of a line that is too long
  Subprocess process_;     // last: it goes first
};

}  // namespace llmtrain
