#pragma once

#include <memory>
#include <vector>

#include "llmtrain/shm/call_queue.hpp"

// The messages of one rank of a group: for every peer and direction a queue with a thread of its own.
//
// A message that waits for its peer holds up those behind it, and nothing else: neither messages of
// another peer or direction nor collectives, which ranks issue in orders that have nothing to do with each
// other. The end drops what has not begun, and waits for what runs.
namespace llmtrain {

class MessageQueues {
 public:
  // Of a group of `size` ranks. Threads start with the first message that needs one.
  explicit MessageQueues(int size);

  CallQueue& to(int peer) { return queue(sends_, peer); }
  CallQueue& from(int peer) { return queue(recvs_, peer); }
  bool busy() const;

 private:
  using Queues = std::vector<std::unique_ptr<CallQueue>>;  // by peer
  static CallQueue& queue(Queues& queues, int peer);

  Queues sends_;
  Queues recvs_;
};

}  // namespace llmtrain
