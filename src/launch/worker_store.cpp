#include "llmtrain/launch/worker_store.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/socket.h>

#include "llmtrain/control/store_wire.hpp"
#include "llmtrain/core/system_limits.hpp"

namespace llmtrain {

Result<std::pair<WorkerStore, UniqueFd>> WorkerStore::open() {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return system_error(ErrorCode::kPreflight, "cannot make a socket for the key-value store");
  UniqueFd ours(sockets[0]);
  UniqueFd theirs(sockets[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  return std::pair(WorkerStore(std::move(ours)), std::move(theirs));
}

std::vector<std::string> WorkerStore::read() {
  constexpr std::size_t kMostAtOnce = 256;
  std::vector<std::string> packets;
  std::string buffer(StoreLimits::kPacket, '\0');
  while (fd_.valid() && packets.size() < kMostAtOnce) {
    const ssize_t n = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      fd_.reset();
      break;
    }
    packets.push_back(buffer.substr(0, static_cast<std::size_t>(n)));
  }
  return packets;
}

void WorkerStore::answer(const std::string& packet) {
  if (!fd_.valid()) return;
  [[maybe_unused]] const ssize_t n =
      send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace llmtrain
