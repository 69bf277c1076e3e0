#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// Frames on a byte stream: four bytes of length, little-endian, then so many bytes. What is in them is
// others' concern; a length over the limit, or of zero, ends the connection before anything of it is stored.
namespace llmtrain {

inline constexpr std::size_t kFrameLimitBefore = 256;           // until the other side has proved itself
inline constexpr std::size_t kFrameLimit = 4 * 1024 * 1024;     // afterwards
inline constexpr std::size_t kPayloadLimit = kFrameLimit - 64;  // what a frame has room for beside its header

void append_frame(std::string& stream, std::string_view body);

class FrameReader {
 public:
  explicit FrameReader(std::size_t limit) : limit_(limit) {}

  void set_limit(std::size_t limit) { limit_ = limit; }
  void append(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole frame; absent: more bytes are needed. After an error the stream is of no use.
  Result<std::optional<std::string>> next();
  std::size_t buffered() const { return buffer_.size() - taken_; }

 private:
  std::size_t limit_;
  std::string buffer_;
  std::size_t taken_ = 0;
};

}  // namespace llmtrain
