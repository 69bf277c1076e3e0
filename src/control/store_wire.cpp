#include "llmtrain/control/store_wire.hpp"

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

// Request: u8 op, u32 id, u32 timeout, u32 key length, key, u32 value length, value.
// Reply:   u8 3 (a value follows) or 4 (none), u32 id, u32 value length, value.
namespace llmtrain {
namespace {

constexpr std::uint8_t kValueReply = 3;
constexpr std::uint8_t kNothingReply = 4;

void put_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>((value >> shift) & 0xFF);
}

void put_text(std::string& out, const std::string& text) {
  put_u32(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

// Takes fields off the front; the first that is not there makes the rest empty.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  std::uint8_t u8() {
    const std::string_view byte = take(1);
    return byte.empty() ? 0 : static_cast<std::uint8_t>(byte[0]);
  }
  std::uint32_t u32() {
    std::uint32_t value = 0;
    const std::string_view bytes = take(4);
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
    return value;
  }
  std::string text(std::size_t limit) {
    const std::uint32_t size = u32();
    if (size > limit) fits_ = false;
    return std::string(take(size));
  }
  // Whether everything was there, and nothing else.
  bool complete() const { return fits_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    fits_ = fits_ && size <= rest_.size();
    if (!fits_) return {};
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool fits_ = true;
};

Error malformed(const char* what, std::string_view packet) {
  return {ErrorCode::kInternal,
          fmt::format("store {}: a packet of {} bytes is none", what, packet.size()),
          "worker and agent must come from one build"};
}

}  // namespace

std::string encode(const StoreRequest& request) {
  LLMTRAIN_CHECK(request.key.size() <= StoreLimits::kKey && request.value.size() <= StoreLimits::kValue,
                 "store key of {} bytes with a value of {}",
                 request.key.size(),
                 request.value.size());
  std::string out(1, static_cast<char>(request.op));
  put_u32(out, request.id);
  put_u32(out, request.timeout_ms);
  put_text(out, request.key);
  put_text(out, request.value);
  return out;
}

std::string encode(const StoreReply& reply) {
  const std::string value = reply.value.value_or("");
  LLMTRAIN_CHECK(value.size() <= StoreLimits::kValue, "store value of {} bytes", value.size());
  std::string out(1, static_cast<char>(reply.value ? kValueReply : kNothingReply));
  put_u32(out, reply.id);
  put_text(out, value);
  return out;
}

Result<StoreRequest> decode_store_request(std::string_view packet) {
  Fields fields(packet);
  StoreRequest request;
  request.op = static_cast<StoreRequest::Op>(fields.u8());
  request.id = fields.u32();
  request.timeout_ms = fields.u32();
  request.key = fields.text(StoreLimits::kKey);
  request.value = fields.text(StoreLimits::kValue);
  const bool known = request.op == StoreRequest::Op::kSet || request.op == StoreRequest::Op::kGet;
  if (!known || !fields.complete()) return malformed("request", packet);
  return request;
}

Result<StoreReply> decode_store_reply(std::string_view packet) {
  Fields fields(packet);
  StoreReply reply;
  const std::uint8_t kind = fields.u8();
  reply.id = fields.u32();
  std::string value = fields.text(StoreLimits::kValue);
  const bool known = kind == kValueReply || (kind == kNothingReply && value.empty());
  if (!known || !fields.complete()) return malformed("reply", packet);
  if (kind == kValueReply) reply.value = std::move(value);
  return reply;
}

}  // namespace llmtrain
