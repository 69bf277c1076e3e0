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
  int to;
  std::size_t begin = 0;
  bool done = false;

  Status put(ShmGroup& group);
};

struct Incoming {
  std::byte* data;
  std::size_t bytes;
  int from;
  std::size_t begin = 0;
  bool done = false;

  Status take(ShmGroup& group);
};

Status Outgoing::put(ShmGroup& group) {
  Lane& lane = group.lane(group.rank(), to);
  const std::size_t n = std::min(kLaneBytes, bytes - begin);
  const std::uint32_t number = lane.written.value.load(std::memory_order_relaxed);
  LLMTRAIN_TRY(group.await(lane.read, number - 1, to));  // at most two chunks are unread
  if (n != 0) std::memcpy(group.lane_chunk(group.rank(), to, number % 2), data + begin, n);
  lane.message_bytes[number % 2].store(bytes, std::memory_order_relaxed);
  lane.written.advance_to(number + 1);
  begin += n;
  done = begin == bytes;
  return ok_status();
}

Status Incoming::take(ShmGroup& group) {
  Lane& lane = group.lane(from, group.rank());
  const std::size_t n = std::min(kLaneBytes, bytes - begin);
  const std::uint32_t number = lane.read.value.load(std::memory_order_relaxed);
  LLMTRAIN_TRY(group.await(lane.written, number + 1, from));
  const std::uint64_t sent = lane.message_bytes[number % 2].load(std::memory_order_relaxed);
  if (sent != bytes)
    return group.fail(ErrorCode::kInternal,
                      fmt::format("expected {} bytes and rank {} of the group sent {}", bytes, from, sent),
                      {});
  if (n != 0) std::memcpy(data + begin, group.lane_chunk(from, group.rank(), number % 2), n);
  lane.read.advance_to(number + 1);
  begin += n;
  done = begin == bytes;
  return ok_status();
}

Outgoing outgoing(const ShmGroup& group, const void* data, std::size_t bytes, int to) {
  LLMTRAIN_CHECK(
      to >= 0 && to < group.size() && to != group.rank(), "send to rank {} of {}", to, group.size());
  return {.data = static_cast<const std::byte*>(data), .bytes = bytes, .to = to};
}

Incoming incoming(const ShmGroup& group, void* data, std::size_t bytes, int from) {
  LLMTRAIN_CHECK(from >= 0 && from < group.size() && from != group.rank(),
                 "recv from rank {} of {}",
                 from,
                 group.size());
  return {.data = static_cast<std::byte*>(data), .bytes = bytes, .from = from};
}

}  // namespace

Status shm_send(ShmGroup& group, const void* data, std::size_t bytes, int to) {
  Outgoing message = outgoing(group, data, bytes, to);
  LLMTRAIN_TRY(group.begin_message("send"));
  while (!message.done) LLMTRAIN_TRY(message.put(group));
  return ok_status();
}

Status shm_recv(ShmGroup& group, void* data, std::size_t bytes, int from) {
  Incoming message = incoming(group, data, bytes, from);
  LLMTRAIN_TRY(group.begin_message("recv"));
  while (!message.done) LLMTRAIN_TRY(message.take(group));
  return ok_status();
}

// Piece n goes out before piece n is awaited, and needs only that piece n - 2 was taken: by induction over n
// all ranks of a ring get through.
Status shm_send_recv(ShmGroup& group,
                     const void* out,
                     std::size_t out_bytes,
                     int to,
                     void* in,
                     std::size_t in_bytes,
                     int from) {
  Outgoing sending = outgoing(group, out, out_bytes, to);
  Incoming receiving = incoming(group, in, in_bytes, from);
  LLMTRAIN_TRY(group.begin_message("send_recv"));
  while (!sending.done || !receiving.done) {
    if (!sending.done) LLMTRAIN_TRY(sending.put(group));
    if (!receiving.done) LLMTRAIN_TRY(receiving.take(group));
  }
  return ok_status();
}

}  // namespace llmtrain
