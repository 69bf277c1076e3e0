#include "llmtrain/logs/log_capture.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/logs/log_tail.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
constexpr int kChunksAtOnce = 16;
constexpr int kChunksAtEnd = 256;  // a pipe holds one; more comes only from a grandchild that goes on writing

}  // namespace

LogCapture::LogCapture(UniqueFd pipe, LogWriter::Log log, const LogLimits& limits, Line line)
    : pipe_(std::move(pipe)),
      log_(std::move(log)),
      max_recent_(limits.recent),
      line_(std::move(line)),
      gate_(limits.storm) {}

Result<LogCapture> LogCapture::start(UniqueFd pipe, LogWriter::Log log, const LogLimits& limits, Line line) {
  const int flags = ::fcntl(pipe.get(), F_GETFL);
  if (flags < 0 || ::fcntl(pipe.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return Error{
        ErrorCode::kInternal, fmt::format("cannot read a worker's output: {}", std::strerror(errno)), {}};
  return LogCapture(std::move(pipe), std::move(log), limits, std::move(line));
}

void LogCapture::pump(StormGate::Instant now) {
  std::array<char, kChunk> chunk;
  for (int i = 0; i < kChunksAtOnce && pipe_.valid(); ++i) {
    const ssize_t got = ::read(pipe_.get(), chunk.data(), chunk.size());
    if (got > 0) {
      take(now, {chunk.data(), static_cast<std::size_t>(got)});
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    pipe_ = UniqueFd();
    if (line_) filter_.finish(line_);
    say_dropped(gate_.last_notice());
  }
  say_dropped(gate_.notice(now));
}

void LogCapture::finish(StormGate::Instant now) {
  std::array<char, kChunk> chunk;
  for (int i = 0; i < kChunksAtEnd && pipe_.valid(); ++i) {
    const ssize_t got = ::read(pipe_.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    take(now, {chunk.data(), static_cast<std::size_t>(got)});
  }
  if (!pipe_.valid()) return;
  pipe_ = UniqueFd();
  if (line_) filter_.finish(line_);
  say_dropped(gate_.last_notice());
}

void LogCapture::remember(std::string_view bytes) {
  seen_ += bytes.size();
  if (max_recent_ == 0) return;
  recent_ += bytes.substr(bytes.size() - std::min(bytes.size(), max_recent_));
  // Cut seldom, so that a byte is moved once or twice and not with every read.
  if (recent_.size() > 2 * max_recent_) recent_.erase(0, recent_.size() - max_recent_);
}

std::string_view LogCapture::since(std::uint64_t seen) const {
  const std::uint64_t wanted = seen_ - std::min(seen, seen_);
  return std::string_view(recent_).substr(recent_.size() - std::min<std::uint64_t>(wanted, recent_.size()));
}

std::vector<std::string> LogCapture::tail(std::size_t max_lines) const {
  return last_lines_of(recent_, max_lines);
}

// Of what comes too fast whole lines are kept: the start of a cut one goes, and the rest of it when it comes.
void LogCapture::take(StormGate::Instant now, std::string_view bytes) {
  remember(bytes);
  const bool ends_a_line = bytes.back() == '\n';
  std::string_view text = bytes.substr(0, gate_.admit(now, bytes.size()));
  const bool cut = text.size() < bytes.size();
  if (inside_dropped_line_) {
    const std::size_t newline = text.find('\n');
    const std::size_t rest = newline == std::string_view::npos ? text.size() : newline + 1;
    gate_.drop(rest);
    text.remove_prefix(rest);
    inside_dropped_line_ = newline == std::string_view::npos;
  }
  if (cut) {
    const std::size_t newline = text.rfind('\n');
    const std::size_t whole = newline != std::string_view::npos ? newline + 1 : mid_line_ ? text.size() : 0;
    gate_.drop(text.size() - whole);
    text = text.substr(0, whole);
    inside_dropped_line_ = !ends_a_line;
  }
  write(text);
  if (line_) filter_.feed(text, line_);
  if (!cut) return;
  if (mid_line_) write("\n");  // nothing comes that belongs to this line
  if (line_) filter_.finish(line_);
}

void LogCapture::say_dropped(std::optional<std::uint64_t> bytes) {
  if (!bytes) return;
  const std::string text =
      fmt::format("[llmtrain: {} bytes of output were dropped: too much at once]", *bytes);
  write((mid_line_ ? "\n" : "") + text + "\n");
  if (!line_) return;
  filter_.finish(line_);
  line_(text);
}

void LogCapture::write(std::string_view bytes) {
  if (bytes.empty()) return;
  log_.write(bytes);
  mid_line_ = bytes.back() != '\n';
}

}  // namespace llmtrain
