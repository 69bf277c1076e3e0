#pragma once

#include <string>
#include <string_view>

#include "llmtrain/control/endpoint.hpp"
#include "llmtrain/core/result.hpp"

// What the system says of this host's name and addresses: under which of them others may reach it, and
// whether an endpoint is here. Each is a question or two to the system; nothing is sent, nothing is decided.
namespace llmtrain {

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
