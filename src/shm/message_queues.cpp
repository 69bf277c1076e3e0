#include "llmtrain/shm/message_queues.hpp"

#include <algorithm>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

MessageQueues::MessageQueues(int size)
    : sends_(static_cast<std::size_t>(size)), recvs_(static_cast<std::size_t>(size)) {}

CallQueue& MessageQueues::queue(Queues& queues, int peer) {
  const auto index = static_cast<std::size_t>(peer);
  LLMTRAIN_CHECK(index < queues.size(), "a message with rank {} of {}", peer, queues.size());
  if (queues[index] == nullptr)
    queues[index] = std::make_unique<CallQueue>(std::make_shared<ProgressEngine>());
  return *queues[index];
}

bool MessageQueues::busy() const {
  const auto in_flight = [](const auto& queue) { return queue != nullptr && queue->busy(); };
  return std::any_of(sends_.begin(), sends_.end(), in_flight) ||
         std::any_of(recvs_.begin(), recvs_.end(), in_flight);
}

}  // namespace llmtrain
