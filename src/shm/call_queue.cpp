#include "llmtrain/shm/call_queue.hpp"

#include <utility>

namespace llmtrain {

std::shared_ptr<ProgressEngine::Ticket> CallQueue::start(std::function<Status()> call) {
  last_ = engine_->submit(std::move(call));
  return last_;
}

Status CallQueue::run(const std::function<Status()>& call) {
  return busy() ? start(call)->wait() : call();
}

}  // namespace llmtrain
