#pragma once

#include <string>

#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/monitor/events.hpp"
#include "llmtrain/monitor/recent_steps.hpp"

// A worker's end of the socket to its agent: events go out as JSON lines.
//
// The agent is the only writer of the run's files, so that a line is never torn between processes. A
// channel whose agent is gone drops its events: PDEATHSIG ends this process anyway.
namespace llmtrain {

class ControlChannel : public EventSink {
 public:
  ControlChannel(UniqueFd socket, int incarnation) : socket_(std::move(socket)), incarnation_(incarnation) {}

  void on(const Event& event) override;
  // Stamps `body` with the time and the incarnation and sends it.
  void emit(EventBody body);

  // What went out of the last steps.
  const RecentSteps& recent_steps() const { return recent_steps_; }

 private:
  UniqueFd socket_;
  int incarnation_;
  RecentSteps recent_steps_;
};

}  // namespace llmtrain
