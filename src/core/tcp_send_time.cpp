#include "llmtrain/core/tcp_send_time.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace llmtrain {
namespace {

using std::chrono::microseconds;

// Connections last as long as their group of ranks: to look for new ones at every call would cost more than
// to ask them.
constexpr int kCallsBetweenSearches = 64;

// Absent: no TCP connection, or a kernel that does not keep the times (before Linux 4.10).
std::optional<microseconds> send_time(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_busy_time) + sizeof info.tcpi_busy_time;
  if (size < kNeeded) return std::nullopt;
  return microseconds(info.tcpi_busy_time);
}

}  // namespace

microseconds TcpSendTime::total() {
  if (calls_++ % kCallsBetweenSearches == 0) find_connections();
  for (auto it = seen_.begin(); it != seen_.end();) {
    auto& [fd, before] = *it;
    const auto now = send_time(fd);
    if (!now) {
      it = seen_.erase(it);
      continue;
    }
    total_ += std::max(*now - before, microseconds{0});  // the number may be another connection's by now
    before = *now;
    ++it;
  }
  return total_;
}

void TcpSendTime::find_connections() {
  std::error_code error;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error)) {
    const int fd = std::stoi(file->path().filename().string());
    if (const auto now = send_time(fd)) seen_.try_emplace(fd, *now);
  }
}

}  // namespace llmtrain
