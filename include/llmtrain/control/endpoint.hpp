#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>

#include "llmtrain/core/result.hpp"

// Where agents meet: host and port as text, and the socket addresses behind it.
namespace llmtrain {

inline constexpr int kDefaultControlPort = 29400;

struct Endpoint {
  std::string host;  // a name or an address; IPv6 without brackets
  int port = kDefaultControlPort;

  bool operator==(const Endpoint&) const = default;
};

// "host", "host:port", "[v6]", "[v6]:port", or a bare IPv6 address. Port 0 is any free port. `origin` names
// the flag or variable in messages.
Result<Endpoint> parse_endpoint(std::string_view text,
                                int default_port = kDefaultControlPort,
                                const std::string& origin = "the endpoint");
std::string to_string(const Endpoint& endpoint);  // brackets where they are needed

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
std::string to_string(const SocketAddress& address);  // with its port

// Asks the system's resolver, which may wait for a name server. All addresses, in the order to try them.
Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint);

// A host *name* whose every address is loopback: other nodes would reach themselves. Addresses and
// "localhost" are taken to be meant.
bool is_hidden_loopback(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses);
Error hidden_loopback(const Endpoint& endpoint, const std::vector<SocketAddress>& addresses);

}  // namespace llmtrain
