#include "llmtrain/launch/stop_signals.hpp"

#include <csignal>
#include <cstring>

#include <sys/signalfd.h>
#include <unistd.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

StopSignals::StopSignals() {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&stops, signal);
  pthread_sigmask(SIG_BLOCK, &stops, &before_);
  fd_ = UniqueFd(signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK));
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
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return std::string("SIG") + sigabbrev_np(static_cast<int>(info.ssi_signo));
}

}  // namespace llmtrain
