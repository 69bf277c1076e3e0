#include "llmtrain/train/control_channel.hpp"

#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/socket.h>

namespace llmtrain {

void ControlChannel::on(const Event& event) {
  recent_steps_.saw(event);
  if (!socket_.valid()) return;
  const std::string line = to_json_line(event) + '\n';
  std::size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      socket_.reset();
      return;
    }
    sent += static_cast<std::size_t>(n);
  }
}

void ControlChannel::emit(EventBody body) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  on({std::chrono::duration<double>(now).count(), incarnation_, std::move(body)});
}

}  // namespace llmtrain
