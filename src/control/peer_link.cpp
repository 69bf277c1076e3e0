#include "peer_link.hpp"

#include <cerrno>

#include <string.h>
#include <sys/socket.h>

namespace llmtrain {
namespace {

constexpr std::size_t kReadAtOnce = 64 * 1024;

LinkEnd socket_end(int error) {
  const bool gone = error == ECONNRESET || error == EPIPE || error == ECONNREFUSED;
  return {gone, false, ::strerrordesc_np(error)};
}

}  // namespace

PeerLink::PeerLink(LinkId id, UniqueFd fd, bool dialed, std::string token, Instant deadline)
    : id_(id),
      fd_(std::move(fd)),
      dialed_(dialed),
      state_(dialed ? State::kConnecting : State::kProving),
      deadline_(deadline),
      handshake_(dialed ? Handshake::Side::kClient : Handshake::Side::kServer, std::move(token)) {
  if (const auto first = handshake_.first()) append_frame(out_, *first);
}

bool PeerLink::queue(std::string_view frame) {
  if (out_.size() - sent_ + frame.size() > kQueueLimit) return false;
  append_frame(out_, frame);
  return true;
}

void PeerLink::close_after_flush(Instant deadline) {
  state_ = State::kClosing;
  deadline_ = deadline;
}

std::optional<LinkEnd> PeerLink::on_writable() {
  if (state_ == State::kConnecting) {
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return socket_end(error);
    state_ = State::kProving;
  }
  return flush();
}

std::optional<LinkEnd> PeerLink::flush() {
  if (state_ == State::kConnecting) return std::nullopt;
  while (sent_ < out_.size()) {
    const ssize_t n =
        ::send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) return socket_end(errno);
    sent_ += static_cast<std::size_t>(n);
  }
  if (sent_ == out_.size()) {
    out_.clear();
    if (out_.capacity() > 256 * 1024) out_.shrink_to_fit();
    sent_ = 0;
    // The other side reads to the end before it hangs up: a reset would take from it what is on the way.
    if (state_ == State::kClosing && !std::exchange(said_all_, true)) ::shutdown(fd_.get(), SHUT_WR);
  } else if (sent_ > 1024 * 1024) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  return std::nullopt;
}

std::optional<LinkEnd> PeerLink::on_readable(std::vector<std::string>& frames) {
  char bytes[kReadAtOnce];
  const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
  if (n < 0) return socket_end(errno);
  if (n == 0) return LinkEnd{true, false, "the connection was closed by the other side"};
  if (state_ == State::kClosing) return std::nullopt;  // nobody listens any more
  reader_.append({bytes, static_cast<std::size_t>(n)});
  return take_frames(frames);
}

std::optional<LinkEnd> PeerLink::take_frames(std::vector<std::string>& frames) {
  while (true) {
    auto frame = reader_.next();
    if (!frame) return LinkEnd{false, false, frame.error().message};
    if (!*frame) return std::nullopt;
    if (state_ == State::kOpen) {
      frames.push_back(std::move(**frame));
      continue;
    }
    if (auto end = prove(**frame)) return end;
  }
}

std::optional<LinkEnd> PeerLink::prove(const std::string& frame) {
  auto answer = handshake_.take(frame);
  if (!answer) {
    if (const auto& parting = handshake_.parting()) {
      append_frame(out_, *parting);
      [[maybe_unused]] const auto ignored = flush();
    }
    return LinkEnd{false, handshake_.refused(), to_string(answer.error())};
  }
  if (*answer) append_frame(out_, **answer);
  if (handshake_.done()) {
    state_ = State::kOpen;
    reader_.set_limit(kFrameLimit);
  }
  return flush();
}

}  // namespace llmtrain
