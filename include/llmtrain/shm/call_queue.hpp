#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "llmtrain/shm/progress_engine.hpp"

// Calls of one owner that keep their order: on the owner's thread while none is in flight, else on the
// engine's thread behind those that are.
//
// It knows nothing about what it runs. Used by one thread.
namespace llmtrain {

class CallQueue {
 public:
  explicit CallQueue(std::shared_ptr<ProgressEngine> engine) : engine_(std::move(engine)) {}

  std::shared_ptr<ProgressEngine::Ticket> start(std::function<Status()> call);
  Status run(const std::function<Status()>& call);
  bool busy() const { return last_ != nullptr && !last_->done(); }

 private:
  std::shared_ptr<ProgressEngine> engine_;  // queues may share one
  std::shared_ptr<ProgressEngine::Ticket> last_;
};

}  // namespace llmtrain
