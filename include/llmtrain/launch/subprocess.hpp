#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// One child process that cannot be forgotten.
//
// It is started by fork and exec in a process group of its own and dies with the thread that started
// it (start it from the main thread). It inherits the descriptors that are listed and no others. When
// the object goes, every process of the group is killed and the child is reaped, if it may be killed.
namespace llmtrain {

struct SpawnOptions {
  // "/proc/self/exe" is this very program, even when its file has been replaced meanwhile.
  std::string executable;
  std::vector<std::string> arguments;    // argv[0] included
  std::vector<std::string> environment;  // "NAME=value", complete: nothing is inherited
  std::vector<int> inherited_fds;        // kept under their numbers
  int stdout_fd = -1;                    // -1: /dev/null; standard input always is
  int stderr_fd = -1;
  std::vector<int> blocked_signals;  // stay blocked in the child until it takes them; others are not
};

struct ProcessEnd {
  bool signaled = false;
  int code = 0;  // the signal's number if `signaled`
};

class Subprocess {
 public:
  // Returns when the program runs, or the error that kept it from running.
  static Result<Subprocess> spawn(const SpawnOptions& options);
  Subprocess(Subprocess&& other) noexcept;
  Subprocess& operator=(Subprocess&& other) noexcept;
  ~Subprocess();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when the child has ended
  bool running() const { return pid_ > 0; }

  // SIGKILL to every process of the group, the child's own children included. An error: the system refuses
  // it.
  Status kill_group();
  // The child's end, once; absent while it runs. What is left of its group is killed first, while the
  // dead child still keeps the group's number from being given to others.
  std::optional<ProcessEnd> reap();
  // Lets go of a child that SIGKILL does not end, so that nobody waits for it.
  void abandon() { pid_ = -1; }

 private:
  Subprocess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  pid_t pid_ = -1;  // -1 when reaped
  UniqueFd pidfd_;
};

// Makes this process the parent of its descendants' orphans, so that they can be found.
Status adopt_orphans();
// Kills and reaps every child of this process but `keep`, for a second at most. Returns how many there were.
int kill_adopted_orphans(const std::vector<pid_t>& keep);

}  // namespace llmtrain
