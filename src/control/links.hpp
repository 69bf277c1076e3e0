#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/control/endpoint.hpp"

#include "peer_link.hpp"
#include "resolver.hpp"

// All connections of one agent: the port it listens on, those that came in, and the one it dials. Bounded in
// every direction: half-open connections in number and time, frames and queues in bytes.
namespace llmtrain {

struct LinkUp {
  LinkId link = 0;
  bool dialed = false;
};
struct LinkFrame {
  LinkId link = 0;
  std::string frame;
};
struct LinkDown {
  LinkId link = 0;
  bool gone = false;
  std::string why;
};
struct DialFailed {
  std::string why;
  bool is_final = false;
};
using LinkEvent = std::variant<LinkUp, LinkFrame, LinkDown, DialFailed>;

class Links {
 public:
  static constexpr std::size_t kMostHalfOpen = 64;
  static constexpr Milliseconds kHandshakeLimit{2'000};
  static constexpr Milliseconds kConnectLimit{2'000};
  static constexpr Milliseconds kFlushLimit{1'000};

  static Result<std::unique_ptr<Links>> open(std::string token);

  // Port 0: any. AF_INET or AF_INET6: on loopback only, where no other host comes; AF_UNSPEC: everywhere.
  // Returns the port; kHeld when it is taken.
  Result<int> listen(int port, int loopback_family);
  void dial(const Endpoint& to, bool refuse_hidden_loopback);
  void send(LinkId link, std::string_view frame);
  void hang_up(Instant now, LinkId link);
  bool acknowledged(LinkId link) const;
  std::string local_address(LinkId link) const;

  int poll_fd() const { return epoll_.get(); }
  std::vector<LinkEvent> poll(Instant now);                              // never waits
  bool busy() const { return !impatient_.empty() || resolver_.busy(); }  // something has a deadline
  bool draining() const;  // a link that is being closed still has something on the way
  std::size_t half_open() const;

 private:
  explicit Links(std::string token) : token_(std::move(token)) {}
  void accept_some(Instant now);
  void update_listening(Instant now);
  LinkId slowest_stranger(Instant now) const;
  void dial_next(Instant now);
  void ready(Instant now, LinkId id, unsigned events);
  void hand_over(PeerLink& link, bool was_open, std::vector<std::string> frames);
  void end(Instant now, LinkId id, const LinkEnd& end);
  void expire(Instant now);
  bool watch(PeerLink& link, int operation);

  std::string token_;
  UniqueFd epoll_, listener_;
  bool listening_ = false;
  Instant accept_again_{0};
  std::map<LinkId, std::unique_ptr<PeerLink>> links_;
  std::set<LinkId> impatient_;  // everything that is not open
  std::set<LinkId> overfull_;
  LinkId last_id_ = 0;
  std::vector<LinkEvent> events_;

  Resolver resolver_;
  Endpoint dialed_;
  bool refuse_hidden_loopback_ = false;
  std::vector<SocketAddress> addresses_;  // still to be tried, last first
  LinkId dialing_ = 0;
  std::string dial_problem_;
};

}  // namespace llmtrain
