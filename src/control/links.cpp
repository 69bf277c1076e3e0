#include "links.hpp"

#include <algorithm>
#include <cerrno>

#include <arpa/inet.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

#include "socket_options.hpp"

namespace llmtrain {
namespace {

constexpr int kEventsAtOnce = 256;
constexpr int kBacklog = 4096;
constexpr Milliseconds kPatienceWhenFull{250};

Error socket_error(const std::string& what, int error) {
  return {ErrorCode::kPreflight, fmt::format("cannot {}: {}", what, ::strerrordesc_np(error)), ""};
}

// All addresses of the host, IPv4 included; where there is no IPv6, IPv4 only.
SocketAddress any_address(int family, int port, bool loopback) {
  SocketAddress address;
  if (family == AF_INET6) {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    v6->sin6_addr = loopback ? in6addr_loopback : in6addr_any;
    address.size = sizeof *v6;
  } else {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    v4->sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    address.size = sizeof *v4;
  }
  return address;
}

}  // namespace

Result<std::unique_ptr<Links>> Links::open(std::string token) {
  std::unique_ptr<Links> links(new Links(std::move(token)));
  links->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!links->epoll_.valid()) return socket_error("make an epoll descriptor", errno);
  return links;
}

Result<int> Links::listen(int port, int loopback_family) {
  int error = EAFNOSUPPORT;
  for (const int family : {AF_INET6, AF_INET}) {
    const bool loopback = loopback_family != AF_UNSPEC;
    if (loopback && family != loopback_family) continue;
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) continue;
    const int on = 1, off = 0;
    ::setsockopt(
        fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // past connections do not hold the port
    if (family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    SocketAddress address = any_address(family, port, loopback);
    if (::bind(fd.get(), address.raw(), address.size) != 0 || ::listen(fd.get(), kBacklog) != 0) {
      error = errno;
      if (error == EADDRINUSE || error == EACCES) break;
      continue;
    }
    address.size = sizeof address.storage;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
      return socket_error("read the control port", errno);
    listener_ = std::move(fd);
    update_listening(Instant{0});
    return static_cast<int>(ntohs(family == AF_INET6
                                      ? reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port
                                      : reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port));
  }
  if (error == EADDRINUSE)
    return Error{
        ErrorCode::kHeld,
        fmt::format("port {} is taken by another program", port),
        fmt::format("find it with `ss -ltnp sport = :{}`, or choose another port in --rdzv-endpoint", port)};
  return socket_error(fmt::format("listen on port {}", port), error);
}

bool Links::watch(PeerLink& link, int operation) {
  const bool write = link.wants_to_write();
  if (operation == EPOLL_CTL_MOD && write == link.armed_to_write) return true;
  link.armed_to_write = write;
  epoll_event event{};
  event.events = EPOLLIN | (write ? unsigned{EPOLLOUT} : 0U);
  event.data.u64 = link.id();
  return ::epoll_ctl(epoll_.get(), operation, link.fd(), &event) == 0;
}

void Links::update_listening(Instant now) {
  if (!listener_.valid()) return;
  const bool wanted = (half_open() < kMostHalfOpen || slowest_stranger(now) != 0) && now >= accept_again_;
  if (wanted == listening_) return;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (::epoll_ctl(epoll_.get(), wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener_.get(), &event) == 0)
    listening_ = wanted;
}

// The oldest half-open connection, if it has had time enough to make room for somebody else.
LinkId Links::slowest_stranger(Instant now) const {
  for (const LinkId id : impatient_) {
    const PeerLink& link = *links_.at(id);
    if (link.dialed() || link.state() != PeerLink::State::kProving) continue;
    return now - (link.deadline() - kHandshakeLimit) >= kPatienceWhenFull ? id : 0;
  }
  return 0;
}

std::size_t Links::half_open() const {
  std::size_t count = 0;
  for (const LinkId id : impatient_) {
    const PeerLink& link = *links_.at(id);
    if (!link.dialed() && link.state() == PeerLink::State::kProving) ++count;
  }
  return count;
}

bool Links::draining() const {
  return std::any_of(impatient_.begin(), impatient_.end(), [this](LinkId id) {
    const PeerLink& link = *links_.at(id);
    return link.state() == PeerLink::State::kClosing &&
           (link.wants_to_write() || unacknowledged_bytes(link.fd()) > 0);
  });
}

void Links::accept_some(Instant now) {
  for (std::size_t round = 0; round < kMostHalfOpen; ++round) {
    if (half_open() >= kMostHalfOpen) {
      const LinkId slow = slowest_stranger(now);
      if (slow == 0) break;
      end(now, slow, {false, false, "it made room for others"});
    }
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        accept_again_ = now + Milliseconds{200};
      break;
    }
    set_stream_options(fd.get());
    auto link = std::make_unique<PeerLink>(++last_id_, std::move(fd), false, token_, now + kHandshakeLimit);
    if (!watch(*link, EPOLL_CTL_ADD)) continue;
    impatient_.insert(link->id());
    links_[link->id()] = std::move(link);
  }
}

void Links::dial(const Endpoint& to, bool refuse_hidden_loopback) {
  dialed_ = to;
  refuse_hidden_loopback_ = refuse_hidden_loopback;
  addresses_.clear();
  dial_problem_.clear();
  resolver_.start(to);
}

// Every address in turn, until one answers.
void Links::dial_next(Instant now) {
  while (!addresses_.empty()) {
    const SocketAddress address = addresses_.back();
    addresses_.pop_back();
    UniqueFd fd(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool started =
        fd.valid() && (::connect(fd.get(), address.raw(), address.size) == 0 || errno == EINPROGRESS);
    if (!started) {
      dial_problem_ = fmt::format("{}: {}", to_string(address), ::strerrordesc_np(errno));
      continue;
    }
    set_stream_options(fd.get());
    dial_problem_ = to_string(address);
    auto link = std::make_unique<PeerLink>(
        ++last_id_, std::move(fd), true, token_, now + kConnectLimit + kHandshakeLimit);
    if (!watch(*link, EPOLL_CTL_ADD)) continue;
    dialing_ = link->id();
    impatient_.insert(dialing_);
    links_[dialing_] = std::move(link);
    return;
  }
  events_.push_back(
      DialFailed{fmt::format("cannot reach {} ({})", to_string(dialed_), dial_problem_), false});
}

void Links::send(LinkId id, std::string_view frame) {
  const auto link = links_.find(id);
  if (link == links_.end() || link->second->state() != PeerLink::State::kOpen) return;
  if (!link->second->queue(frame))
    overfull_.insert(id);
  else if (!link->second->flush())
    watch(*link->second, EPOLL_CTL_MOD);
  // An error of flush() shows again as an event of the socket.
}

void Links::hang_up(Instant now, LinkId id) {
  const auto link = links_.find(id);
  if (link == links_.end()) return;
  link->second->close_after_flush(now + kFlushLimit);
  impatient_.insert(id);
  if (link->second->flush()) {
    impatient_.erase(id);
    links_.erase(link);
  } else {
    watch(*link->second, EPOLL_CTL_MOD);
  }
}

bool Links::acknowledged(LinkId id) const {
  const auto link = links_.find(id);
  return link != links_.end() && peer_acknowledges(link->second->fd());
}

std::string Links::local_address(LinkId id) const {
  const auto link = links_.find(id);
  SocketAddress address;
  address.size = sizeof address.storage;
  if (link == links_.end() ||
      ::getsockname(link->second->fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return "";
  const std::string text = to_string(address);
  const auto endpoint = parse_endpoint(text);
  return endpoint ? endpoint->host : "";
}

std::vector<LinkEvent> Links::poll(Instant now) {
  if (auto answer = resolver_.take()) {
    if (!*answer)
      events_.push_back(DialFailed{to_string(answer->error()), false});
    else if (refuse_hidden_loopback_ && is_hidden_loopback(dialed_, **answer))
      events_.push_back(DialFailed{to_string(hidden_loopback(dialed_, **answer)), true});
    else {
      addresses_.assign((*answer)->rbegin(), (*answer)->rend());
      dial_next(now);
    }
  }
  epoll_event ready_now[kEventsAtOnce];
  const int count = ::epoll_wait(epoll_.get(), ready_now, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    if (ready_now[i].data.u64 == 0)
      accept_some(now);
    else
      ready(now, ready_now[i].data.u64, ready_now[i].events);
  }
  for (const LinkId id : std::exchange(overfull_, {}))
    if (links_.count(id) != 0)
      end(now, id, {false, false, "the other side does not take what is sent to it"});
  expire(now);
  update_listening(now);
  return std::exchange(events_, {});
}

void Links::ready(Instant now, LinkId id, unsigned events) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  PeerLink& link = *found->second;
  const bool was_open = link.state() == PeerLink::State::kOpen;
  std::optional<LinkEnd> ended;
  std::vector<std::string> frames;
  if ((events & (EPOLLOUT | EPOLLERR)) != 0) ended = link.on_writable();
  if (!ended && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ended = link.on_readable(frames);
  hand_over(link, was_open, std::move(frames));
  if (ended)
    end(now, id, *ended);
  else
    watch(link, EPOLL_CTL_MOD);
}

void Links::hand_over(PeerLink& link, bool was_open, std::vector<std::string> frames) {
  if (!was_open && link.state() == PeerLink::State::kOpen) {
    impatient_.erase(link.id());
    if (link.id() == dialing_) dialing_ = 0;
    events_.push_back(LinkUp{link.id(), link.dialed()});
  }
  for (std::string& frame : frames) events_.push_back(LinkFrame{link.id(), std::move(frame)});
}

void Links::end(Instant now, LinkId id, const LinkEnd& end) {
  const PeerLink::State state = links_.at(id)->state();
  impatient_.erase(id);
  const bool dialed = id == std::exchange(dialing_, id == dialing_ ? 0 : dialing_);
  if (state != PeerLink::State::kClosing && end.refused && !dialed) {
    hang_up(now, id);  // so that the refusal arrives
    return;
  }
  links_.erase(id);
  if (state == PeerLink::State::kOpen) {
    events_.push_back(LinkDown{id, end.gone, end.why});
  } else if (dialed && (end.refused || addresses_.empty())) {
    events_.push_back(DialFailed{
        end.refused ? fmt::format("refused by {}: {}", to_string(dialed_), end.why)
                    : fmt::format("cannot reach {}{}: {}",
                                  to_string(dialed_),
                                  dial_problem_ == to_string(dialed_) ? "" : " (" + dial_problem_ + ")",
                                  end.why),
        end.refused});
  } else if (dialed) {
    dial_next(now);
  }
}

void Links::expire(Instant now) {
  std::vector<LinkId> late;
  for (const LinkId id : impatient_)
    if (now >= links_.at(id)->deadline()) late.push_back(id);
  for (const LinkId id : late) end(now, id, {false, false, "no answer in time"});
}

}  // namespace llmtrain
