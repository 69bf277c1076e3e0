#include "llmtrain/launch/stop_signals.hpp"

#include <csignal>
#include <cstring>

#include <sys/signalfd.h>
#include <unistd.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

StopSignals::StopSignals(const std::vector<int>& signals) {
  sigemptyset(&stops_);
  for (const int signal : signals) sigaddset(&stops_, signal);
  sigset_t taken = stops_;
  for (const int signal : {SIGUSR1, SIGUSR2}) sigaddset(&taken, signal);
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  fd_ = UniqueFd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  LLMTRAIN_CHECK(fd_.valid(), "signalfd: {}", std::strerror(errno));
}

StopSignals::~StopSignals() {
  while (take()) {
    // A signal that came too late to matter must not kill this process now.
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<std::string> StopSignals::take() {
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (sigismember(&stops_, signal) == 1) return std::string("SIG") + sigabbrev_np(signal);
  }
  return std::nullopt;
}

}  // namespace llmtrain
