// Loaded into the workers by LD_PRELOAD (launch.env), as a careless library of a user would be: each worker
// starts LLMTRAIN_TEST_ORPHANS children that ignore every signal that can be ignored. Of three one stays in
// the worker's group, one has a session of its own, and one has lost its parent too.

#include <csignal>
#include <cstdlib>
#include <cstring>

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace {

[[noreturn]] void live_on(int kind) {
  if (kind > 0) setsid();
  if (kind > 1 && fork() > 0) _exit(0);
  prctl(PR_SET_NAME, "orphan", 0, 0, 0);
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_IGN);
  for (;;) pause();
}

__attribute__((constructor)) void start_children() {
  const char* const count = std::getenv("LLMTRAIN_TEST_ORPHANS");
  if (count == nullptr || std::strncmp(program_invocation_short_name, "llmtrain-r", 10) != 0) return;
  for (int i = 0; i < std::atoi(count); ++i)
    if (fork() == 0) live_on(i % 3);
}

}  // namespace
