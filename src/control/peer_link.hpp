#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llmtrain/control/frame.hpp"
#include "llmtrain/control/handshake.hpp"
#include "llmtrain/control/membership.hpp"
#include "llmtrain/core/instant.hpp"
#include "llmtrain/core/unique_fd.hpp"

// One connection: bytes in, frames out, and back. It never waits; its owner knows when it is ready.
namespace llmtrain {

struct LinkEnd {
  bool gone = false;  // the process at the other end is: end of stream, or reset
  bool refused = false;
  std::string why;
};

class PeerLink {
 public:
  static constexpr std::size_t kQueueLimit = 16 * 1024 * 1024;
  enum class State { kConnecting, kProving, kOpen, kClosing };

  PeerLink(LinkId id, UniqueFd fd, bool dialed, std::string token, Instant deadline);

  LinkId id() const { return id_; }
  int fd() const { return fd_.get(); }
  bool dialed() const { return dialed_; }
  State state() const { return state_; }
  Instant deadline() const { return deadline_; }  // of everything but kOpen
  bool wants_to_write() const { return state_ == State::kConnecting || sent_ < out_.size(); }

  bool queue(std::string_view frame);  // false: too much is queued already
  void close_after_flush(Instant deadline);

  // The socket is readable or writable. Whole frames go to `frames`; a handshake is carried on here and shows
  // by the state. An end is final.
  std::optional<LinkEnd> on_readable(std::vector<std::string>& frames);
  std::optional<LinkEnd> on_writable();
  std::optional<LinkEnd> flush();

  bool armed_to_write = false;  // what the owner last asked epoll for

 private:
  std::optional<LinkEnd> take_frames(std::vector<std::string>& frames);
  std::optional<LinkEnd> prove(const std::string& frame);

  LinkId id_;
  UniqueFd fd_;
  bool dialed_;
  State state_;
  Instant deadline_;
  Handshake handshake_;
  FrameReader reader_{kFrameLimitBefore};
  std::string out_;
  std::size_t sent_ = 0;
  bool said_all_ = false;  // of a closing link
};

}  // namespace llmtrain
