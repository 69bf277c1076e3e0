#include "llmtrain/control/endpoint.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

#include <fmt/format.h>

namespace llmtrain {
namespace {

bool is_host(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  });
}

bool is_literal(const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), address) == 1 ||
         ::inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), address) == 1;
}

bool is_loopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text, int default_port, const std::string& origin) {
  const auto refuse = [&](const char* what) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{} = \"{}\": {}", origin, text.substr(0, 200), what),
                 "write HOST, HOST:PORT or [IPV6]:PORT, for example node01:29400 or [fd00::1]:29400"};
  };
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return refuse("the bracket is not closed");
    host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest.front() != ':') return refuse("a bracket is followed by a colon and the port");
    if (!rest.empty()) port = rest.substr(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(host.size() + 1);
  }
  Endpoint endpoint{std::string(host), default_port};
  if (!is_host(host)) return refuse("that is no host name and no address");
  if (host.find(':') != std::string_view::npos && !is_literal(endpoint.host))
    return refuse("what has several colons must be an IPv6 address");
  if (!port) return endpoint;
  const auto [end, error] = std::from_chars(port->data(), port->data() + port->size(), endpoint.port);
  if (error != std::errc() || end != port->data() + port->size() || endpoint.port < 0 ||
      endpoint.port > 65535)
    return refuse("the port is a number from 0 to 65535");
  return endpoint;
}

std::string to_string(const Endpoint& endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", endpoint.host, v6 ? "]" : "", endpoint.port);
}

std::string to_string(const SocketAddress& address) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (::getnameinfo(address.raw(),
                    address.size,
                    host,
                    sizeof host,
                    port,
                    sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return to_string(Endpoint{host, std::atoi(port)});
}

Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error != 0)
    return Error{ErrorCode::kPreflight,
                 fmt::format("host '{}' does not resolve: {}",
                             endpoint.host,
                             error == EAI_SYSTEM ? ::strerrordesc_np(errno) : ::gai_strerror(error)),
                 "check the name of --rdzv-endpoint, or give an address"};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = list; a != nullptr && addresses.size() < 16; a = a->ai_next) {
    if (a->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress& address = addresses.emplace_back();
    ::memcpy(&address.storage, a->ai_addr, a->ai_addrlen);
    address.size = a->ai_addrlen;
  }
  return addresses;
}

bool is_hidden_loopback(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses) {
  if (is_literal(endpoint.host) || endpoint.host == "localhost") return false;
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(), is_loopback);
}

Error hidden_loopback(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses) {
  return {ErrorCode::kPreflight,
          fmt::format("host '{}' resolves to loopback only ({}): other nodes would reach themselves",
                      endpoint.host,
                      addresses.empty() ? "?" : to_string(addresses.front())),
          "give an address that all nodes reach, or correct /etc/hosts"};
}

}  // namespace llmtrain
