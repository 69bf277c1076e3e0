#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"

// Where the nodes of a job meet: `host`, `host:port`, `[::1]:port`, `::1`.
//
// The text part is pure. The two questions to the system are apart, each one call: which address of this host
// leads there, and whether there is here.
namespace llmtrain {

struct Endpoint {
  std::string host;  // a name or an address, without brackets
  int port = 0;

  // `host:port`, with brackets around an IPv6 address.
  std::string text() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// `origin` names the flag or variable in messages; `default_port` is used when the text has none.
Result<Endpoint> parse_endpoint(std::string_view text, int default_port, const std::string& origin);

// The address of this host that packets to the endpoint leave from: a UDP socket is connected, nothing is
// sent.
Result<std::string> address_towards(const Endpoint& endpoint);
// An address of this host by which others may reach it when no endpoint tells the way: that of the first
// network interface that is up and not the loopback; 127.0.0.1 without one.
std::string own_address();
// 127.0.0.0/8, ::1, and the name localhost: what each host calls itself.
bool is_loopback(std::string_view host);
// Whether the endpoint's host is this one.
Result<bool> is_this_host(const Endpoint& endpoint);
// The kernel's name of this host.
std::string host_name();

}  // namespace llmtrain
