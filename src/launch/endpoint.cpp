#include "llmtrain/launch/endpoint.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include <arpa/inet.h>
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

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 255 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  });
}

struct AddressesDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, AddressesDeleter>;

Result<Addresses> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (code != 0)
    return Error{ErrorCode::kPreflight,
                 fmt::format("the host name {} of the rendezvous endpoint cannot be resolved: {}",
                             endpoint.host,
                             code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code)),
                 "give an address, or a name that every node resolves"};
  return Addresses(found);
}

Result<std::string> numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  const int code = ::getnameinfo(
      address, length, text.data(), static_cast<socklen_t>(text.size()), nullptr, 0, NI_NUMERICHOST);
  if (code != 0) return Error{ErrorCode::kIo, fmt::format("getnameinfo: {}", ::gai_strerror(code)), ""};
  return std::string(text.data());
}

}  // namespace

std::string Endpoint::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<Endpoint> parse_endpoint(std::string_view text, int default_port, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} = \"{}\": {}", origin, text.substr(0, 300), what),
                 "allowed: HOST, HOST:PORT, ADDRESS:PORT or [IPV6]:PORT"};
  };
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return refuse("the bracket is not closed");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse("after the bracket only :PORT may follow");
    port = rest.empty() ? rest : rest.substr(1);
    if (rest == ":") return refuse("the port is missing");
  } else if (std::count(text.begin(), text.end(), ':') ==
             1) {  // more of them: an IPv6 address without a port
    host = text.substr(0, text.find(':'));
    port = text.substr(host.size() + 1);
    if (port.empty()) return refuse("the port is missing");
  }
  if (!is_host(host)) return refuse("no host name or address");
  Endpoint endpoint{std::string(host), default_port};
  if (port.empty()) return endpoint;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size() || endpoint.port < 1 || endpoint.port > 65535)
    return refuse("the port must be a number from 1 to 65535");
  return endpoint;
}

Result<std::string> address_towards(const Endpoint& endpoint) {
  LLMTRAIN_ASSIGN(addresses, resolve(endpoint));
  int last = 0;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    const UniqueFd fd(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (fd.get() >= 0 && ::connect(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0)
      return numeric(reinterpret_cast<const sockaddr*>(&own), length);
    last = errno;
  }
  return Error{ErrorCode::kPreflight,
               fmt::format("this host has no way to {}: {}", endpoint.text(), std::strerror(last)),
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
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    const auto wanted = numeric(entry->ai_addr, entry->ai_addrlen);
    if (!wanted) continue;
    if (is_loopback(*wanted)) return true;
    for (const ifaddrs* own = interfaces.get(); own != nullptr; own = own->ifa_next) {
      if (own->ifa_addr == nullptr || own->ifa_addr->sa_family != entry->ai_family) continue;
      const socklen_t length = entry->ai_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
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
