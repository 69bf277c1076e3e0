#include "llmtrain/discovery/host_address.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/unique_fd.hpp"

namespace llmtrain {
namespace {

Result<std::string> numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int code = ::getnameinfo(
      address, length, text.data(), static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
  if (code != 0) return Error{ErrorCode::kIo, fmt::format("getnameinfo: {}", ::gai_strerror(code)), ""};
  return std::string(text.data());
}

}  // namespace

Result<std::string> address_towards(const Endpoint& endpoint) {
  LLMTRAIN_ASSIGN(addresses, resolve(endpoint));
  int last = 0;
  for (const SocketAddress& entry : addresses) {
    const UniqueFd fd(::socket(entry.raw()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (fd.get() >= 0 && ::connect(fd.get(), entry.raw(), entry.size) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0)
      return numeric(reinterpret_cast<const sockaddr*>(&own), length);
    last = errno;
  }
  return Error{ErrorCode::kPreflight,
               fmt::format("this host has no way to {}: {}", to_string(endpoint), std::strerror(last)),
               "check the endpoint and the routes of this host"};
}

std::string own_address() {
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(raw, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr == nullptr || own->ifa_addr->sa_family != family) continue;
      if ((own->ifa_flags & IFF_UP) == 0 || (own->ifa_flags & IFF_LOOPBACK) != 0) continue;
      const auto text =
          numeric(own->ifa_addr, family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
      if (text && !text->starts_with("fe80")) return *text;
    }
  return "127.0.0.1";
}

bool is_loopback(std::string_view host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

Result<bool> is_this_host(const Endpoint& endpoint) {
  LLMTRAIN_ASSIGN(addresses, resolve(endpoint));
  ifaddrs* raw = nullptr;
  if (::getifaddrs(&raw) != 0)
    return Error{ErrorCode::kIo, fmt::format("getifaddrs: {}", std::strerror(errno)), ""};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(raw, ::freeifaddrs);
  for (const SocketAddress& entry : addresses) {
    const auto wanted = numeric(entry.raw(), entry.size);
    if (!wanted) continue;
    if (is_loopback(*wanted)) return true;
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr == nullptr || own->ifa_addr->sa_family != entry.raw()->sa_family) continue;
      const socklen_t length =
          entry.raw()->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
      const auto text = numeric(own->ifa_addr, length);
      if (text && *text == *wanted) return true;
    }
  }
  return false;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace llmtrain
