#include "llmtrain/control/message.hpp"

#include <fmt/format.h>

#include "llmtrain/control/frame.hpp"

#include "wire_bytes.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kTextLimit = 512;
constexpr std::size_t kInstanceBytes = 16;
constexpr std::size_t kRefusalLimit = 2048;

std::string_view cut(std::string_view text, std::size_t limit) {
  return text.substr(0, limit);
}

// Every body knows how to write and read itself; the type of a message is its index in the variant plus one.
void put(ByteWriter& w, const JoinMessage& m) {
  const NodeIdentity& id = m.identity;
  for (const std::string* text :
       {&id.rdzv_id, &id.host, &id.address, &id.build, &id.job_digest, &id.data_digest})
    w.text(cut(*text, kTextLimit));
  w.u8(id.node_rank.has_value() ? 1 : 0).u32(static_cast<std::uint32_t>(id.node_rank.value_or(0)));
  w.u8(id.survivor ? 1 : 0).u16(static_cast<std::uint16_t>(id.control_port));
  w.u32(static_cast<std::uint32_t>(id.num_workers))
      .i64(id.pid)
      .raw(m.instance)
      .text(cut(m.nonce, kTextLimit));
}
void put(ByteWriter& w, const WelcomeMessage& m) {
  w.u32(static_cast<std::uint32_t>(m.node + 1)).u32(static_cast<std::uint32_t>(m.leader_node));
  w.text(cut(m.leader_host, kTextLimit));
}
void put(ByteWriter& w, const RefuseMessage& m) {
  w.u8(static_cast<std::uint8_t>(m.kind))
      .u8(static_cast<std::uint8_t>(m.code))
      .text(cut(m.text, kRefusalLimit));
}
void put(ByteWriter&, const HeartbeatMessage&) {}
void put(ByteWriter& w, const PayloadMessage& m) {
  w.raw(m.payload);
}
void put(ByteWriter&, const EndMessage&) {}

constexpr std::uint32_t kLargestNode = 1'000'000;

JoinMessage get_join(ByteReader& r, bool& sound) {
  JoinMessage m;
  NodeIdentity& id = m.identity;
  for (std::string* text : {&id.rdzv_id, &id.host, &id.address, &id.build, &id.job_digest, &id.data_digest})
    *text = r.text(kTextLimit);
  const bool ranked = r.flag();
  const std::uint32_t rank = r.u32();
  if (ranked) id.node_rank = static_cast<int>(rank);
  id.survivor = r.flag();
  id.control_port = r.u16();
  const std::uint32_t workers = r.u32();
  id.num_workers = static_cast<int>(workers);
  id.pid = r.i64();
  m.instance = r.raw(kInstanceBytes);
  m.nonce = r.text(kTextLimit);
  sound = rank <= kLargestNode && (ranked || rank == 0) && workers <= kLargestNode;
  return m;
}
WelcomeMessage get_welcome(ByteReader& r, bool& sound) {
  const std::uint32_t node = r.u32(), leader = r.u32();
  sound = node <= kLargestNode && leader <= kLargestNode;
  return {static_cast<int>(node - 1), static_cast<int>(leader), r.text(kTextLimit)};
}
RefuseMessage get_refuse(ByteReader& r, bool& sound) {
  const std::uint8_t kind = r.u8(), code = r.u8();
  sound = kind <= 2 && code <= static_cast<std::uint8_t>(ErrorCode::kInternal);
  return {static_cast<RefusalKind>(kind), static_cast<ErrorCode>(code), r.text(kRefusalLimit)};
}

}  // namespace

std::string encode(const Message& message) {
  ByteWriter w;
  w.u8(static_cast<std::uint8_t>(message.body.index() + 1)).i64(message.epoch);
  std::visit([&w](const auto& body) { put(w, body); }, message.body);
  return w.take();
}

Result<Message> decode_message(std::string_view bytes) {
  ByteReader r(bytes);
  const std::uint8_t type = r.u8();
  Message m;
  m.epoch = r.i64();
  bool sound = true;
  switch (type) {
    case 1: m.body = get_join(r, sound); break;
    case 2: m.body = get_welcome(r, sound); break;
    case 3: m.body = get_refuse(r, sound); break;
    case 4: m.body = HeartbeatMessage{}; break;
    case 5:
      if (bytes.size() > 9 + kPayloadLimit) sound = false;
      m.body = PayloadMessage{r.raw(bytes.size() >= 9 ? bytes.size() - 9 : 0)};
      break;
    case 6: m.body = EndMessage{}; break;
    default: return Error{ErrorCode::kCorrupt, fmt::format("a message of the unknown type {}", type), ""};
  }
  if (!r.done() || !sound || m.epoch < 0)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("a malformed message of type {} and {} bytes", type, bytes.size()),
                 ""};
  return m;
}

}  // namespace llmtrain
