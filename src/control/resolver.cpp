#include "resolver.hpp"

#include <mutex>
#include <thread>

#include <arpa/inet.h>

namespace llmtrain {

struct Resolver::Answer {
  std::mutex mutex;
  std::optional<Result<std::vector<SocketAddress>>> result;
};

void Resolver::start(const Endpoint& endpoint) {
  answer_ = std::make_shared<Answer>();
  unsigned char address[sizeof(in6_addr)];
  if (::inet_pton(AF_INET, endpoint.host.c_str(), address) == 1 ||
      ::inet_pton(AF_INET6, endpoint.host.c_str(), address) == 1) {
    answer_->result = resolve(endpoint);
    return;
  }
  std::thread([answer = answer_, endpoint] {
    auto result = resolve(endpoint);
    const std::lock_guard lock(answer->mutex);
    answer->result = std::move(result);
  }).detach();
}

std::optional<Result<std::vector<SocketAddress>>> Resolver::take() {
  if (!answer_) return std::nullopt;
  const std::shared_ptr<Answer> answer = answer_;
  const std::lock_guard lock(answer->mutex);
  if (!answer->result) return std::nullopt;
  answer_.reset();
  return std::move(answer->result);
}

}  // namespace llmtrain
