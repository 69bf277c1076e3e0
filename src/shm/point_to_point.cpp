#include "llmtrain/shm/point_to_point.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

// A message on its way through a lane, piece by piece; an empty message is one empty piece. The writer owns
// `written`, the reader owns `read`; chunk number n of a lane lies in buffer n % 2.
struct Outgoing {
  const std::byte* data;
  std::size_t bytes;
  ShmMessage message;
  std::size_t begin = 0;
  bool done = false;

  Status put(ShmGroup& group);
};

struct Incoming {
  std::byte* data;
  std::size_t bytes;
  ShmMessage message;
  std::size_t begin = 0;
  bool done = false;

  Status take(ShmGroup& group);
};

Status Outgoing::put(ShmGroup& group) {
  const int to = message.peer;
  Lane& lane = group.lane(group.rank(), to);
  const std::size_t n = std::min(kLaneBytes, bytes - begin);
  const std::uint32_t number = lane.written.value.load(std::memory_order_relaxed);
  LLMTRAIN_TRY(group.await(lane.read, number - 1, message));  // at most two chunks are unread
  if (n != 0) std::memcpy(group.lane_chunk(group.rank(), to, number % 2), data + begin, n);
  lane.message_bytes[number % 2].store(bytes, std::memory_order_relaxed);
  lane.written.advance_to(number + 1);
  begin += n;
  done = begin == bytes;
  return ok_status();
}

Status Incoming::take(ShmGroup& group) {
  const int from = message.peer;
  Lane& lane = group.lane(from, group.rank());
  const std::size_t n = std::min(kLaneBytes, bytes - begin);
  const std::uint32_t number = lane.read.value.load(std::memory_order_relaxed);
  LLMTRAIN_TRY(group.await(lane.written, number + 1, message));
  const std::uint64_t sent = lane.message_bytes[number % 2].load(std::memory_order_relaxed);
  if (sent != bytes) return group.fail(message, fmt::format("expected {} bytes and got {}", bytes, sent));
  if (n != 0) std::memcpy(data + begin, group.lane_chunk(from, group.rank(), number % 2), n);
  lane.read.advance_to(number + 1);
  begin += n;
  done = begin == bytes;
  return ok_status();
}

void check_peer(const ShmGroup& group, const char* operation, int peer) {
  LLMTRAIN_CHECK(peer >= 0 && peer < group.size() && peer != group.rank(),
                 "{} of rank {} with rank {} of {}",
                 operation,
                 group.rank(),
                 peer,
                 group.size());
}

}  // namespace

Status shm_send(ShmGroup& group, const void* data, std::size_t bytes, int to) {
  check_peer(group, "send", to);
  const Result<ShmMessage> message = group.begin_send(to);
  if (!message) return message.error();
  Outgoing sending{.data = static_cast<const std::byte*>(data), .bytes = bytes, .message = message.value()};
  while (!sending.done) LLMTRAIN_TRY(sending.put(group));
  return ok_status();
}

Status shm_recv(ShmGroup& group, void* data, std::size_t bytes, int from) {
  check_peer(group, "recv", from);
  const Result<ShmMessage> message = group.begin_recv(from);
  if (!message) return message.error();
  Incoming receiving{.data = static_cast<std::byte*>(data), .bytes = bytes, .message = message.value()};
  while (!receiving.done) LLMTRAIN_TRY(receiving.take(group));
  return ok_status();
}

bool shm_send_is_buffered(const ShmGroup& group, std::size_t bytes, int to) {
  check_peer(group, "send", to);
  const Lane& lane = group.lane(group.rank(), to);
  const std::uint32_t unread =
      lane.written.value.load(std::memory_order_relaxed) - lane.read.value.load(std::memory_order_relaxed);
  return bytes <= (2 - unread) * kLaneBytes && unread < 2;
}

}  // namespace llmtrain
