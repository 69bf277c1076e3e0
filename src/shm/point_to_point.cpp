#include "llmtrain/shm/point_to_point.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

// The writer owns `written`, the reader owns `read`; chunk number n of a lane lies in buffer n % 2.
Status shm_send(ShmGroup& group, const void* data, std::size_t bytes, int to) {
  LLMTRAIN_CHECK(
      to >= 0 && to < group.size() && to != group.rank(), "send to rank {} of {}", to, group.size());
  LLMTRAIN_TRY(group.begin_message("send"));
  Lane& lane = group.lane(group.rank(), to);
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(kLaneBytes, bytes - begin);
    const std::uint32_t number = lane.written.value.load(std::memory_order_relaxed);
    LLMTRAIN_TRY(group.await(lane.read, number - 1, to));  // at most two chunks are unread
    if (n != 0)
      std::memcpy(
          group.lane_chunk(group.rank(), to, number % 2), static_cast<const std::byte*>(data) + begin, n);
    lane.message_bytes[number % 2].store(bytes, std::memory_order_relaxed);
    lane.written.advance_to(number + 1);
    begin += n;
  } while (begin < bytes);
  return ok_status();
}

Status shm_recv(ShmGroup& group, void* data, std::size_t bytes, int from) {
  LLMTRAIN_CHECK(from >= 0 && from < group.size() && from != group.rank(),
                 "recv from rank {} of {}",
                 from,
                 group.size());
  LLMTRAIN_TRY(group.begin_message("recv"));
  Lane& lane = group.lane(from, group.rank());
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(kLaneBytes, bytes - begin);
    const std::uint32_t number = lane.read.value.load(std::memory_order_relaxed);
    LLMTRAIN_TRY(group.await(lane.written, number + 1, from));
    const std::uint64_t sent = lane.message_bytes[number % 2].load(std::memory_order_relaxed);
    if (sent != bytes)
      return group.fail(ErrorCode::kInternal,
                        fmt::format("expected {} bytes and rank {} of the group sent {}", bytes, from, sent),
                        {});
    if (n != 0)
      std::memcpy(static_cast<std::byte*>(data) + begin, group.lane_chunk(from, group.rank(), number % 2), n);
    lane.read.advance_to(number + 1);
    begin += n;
  } while (begin < bytes);
  return ok_status();
}

}  // namespace llmtrain
