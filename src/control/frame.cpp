#include "llmtrain/control/frame.hpp"

#include <fmt/format.h>

namespace llmtrain {

void append_frame(std::string& stream, std::string_view body) {
  const auto size = static_cast<std::uint32_t>(body.size());
  for (int shift = 0; shift < 32; shift += 8) stream += static_cast<char>(size >> shift & 0xff);
  stream += body;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (buffered() < 4) return std::optional<std::string>();
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i)
    size |= std::uint32_t{static_cast<unsigned char>(buffer_[taken_ + static_cast<std::size_t>(i)])} << 8 * i;
  if (size == 0 || size > limit_)
    return Error{
        ErrorCode::kCorrupt, fmt::format("a frame of {} bytes; 1 to {} are allowed", size, limit_), ""};
  if (buffered() < 4 + std::size_t{size}) return std::optional<std::string>();
  std::string body = buffer_.substr(taken_ + 4, size);
  taken_ += 4 + std::size_t{size};
  if (taken_ == buffer_.size() || taken_ > 64 * 1024) {
    buffer_.erase(0, taken_);
    taken_ = 0;
    if (buffer_.capacity() > 256 * 1024 && buffer_.size() < 1024) buffer_.shrink_to_fit();
  }
  return std::optional(std::move(body));
}

}  // namespace llmtrain
