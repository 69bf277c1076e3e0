#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Numbers and texts as bytes, little-endian; texts carry their length. A reader that met something short or
// too long is not ok() from then on and returns zeros.
namespace llmtrain {

class ByteWriter {
 public:
  ByteWriter& u8(std::uint8_t v) { return number(v, 1); }
  ByteWriter& u16(std::uint16_t v) { return number(v, 2); }
  ByteWriter& u32(std::uint32_t v) { return number(v, 4); }
  ByteWriter& i64(std::int64_t v) { return number(static_cast<std::uint64_t>(v), 8); }
  ByteWriter& text(std::string_view v) {
    u32(static_cast<std::uint32_t>(v.size()));
    return raw(v);
  }
  ByteWriter& raw(std::string_view v) {
    bytes_ += v;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  ByteWriter& number(std::uint64_t v, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(v >> 8 * i & 0xff);
    return *this;
  }
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::int64_t i64() { return static_cast<std::int64_t>(number(8)); }
  bool flag() {
    const std::uint8_t v = u8();
    if (v > 1) ok_ = false;
    return v == 1;
  }
  std::string text(std::size_t limit) {
    const std::size_t size = u32();
    if (size > limit) ok_ = false;
    return raw(size);
  }
  std::string raw(std::size_t size) {
    if (!ok_ || rest_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::uint64_t number(std::size_t size) {
    const std::string bytes = raw(size);
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      v |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
    return v;
  }
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace llmtrain
