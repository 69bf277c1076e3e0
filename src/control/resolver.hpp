#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "llmtrain/control/endpoint.hpp"

// Resolves a name beside the caller's loop: a name server may take its time. Addresses are done at once. One
// name at a time; a question that nobody waits for any more ends by itself.
namespace llmtrain {

class Resolver {
 public:
  void start(const Endpoint& endpoint);
  bool busy() const { return answer_ != nullptr; }
  std::optional<Result<std::vector<SocketAddress>>> take();  // absent: not yet

 private:
  struct Answer;
  std::shared_ptr<Answer> answer_;
};

}  // namespace llmtrain
