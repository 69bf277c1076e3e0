#include "socket_options.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace llmtrain {
namespace {

constexpr int kKeepAliveSeconds = 1;
constexpr int kKeepAliveProbes = 3;
constexpr int kUserTimeoutMs = 8'000;
constexpr unsigned kRecentMs = 1'000;  // an acknowledgement is held back for 200 ms at most

// Best effort: without them a dead link is still noticed, by silence.
void set(int fd, int level, int name, int value) {
  [[maybe_unused]] const int done = ::setsockopt(fd, level, name, &value, sizeof value);
}

}  // namespace

void set_stream_options(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveSeconds);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

int unacknowledged_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

bool peer_acknowledges(int fd) {
  if (unacknowledged_bytes(fd) == 0) return true;
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_last_ack_recv < kRecentMs;
}

}  // namespace llmtrain
