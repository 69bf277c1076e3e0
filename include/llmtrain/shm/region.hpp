#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/shm/wait_word.hpp"

// The memory through which the ranks of one agent talk: one memfd, made by the agent and inherited.
//
// It has no name, so that nothing can be left behind; pages are allocated when first touched, so that
// its generous size costs nothing. One region serves one incarnation of the workers: a restart gets a
// new one. Per (group slot, rank) it holds an arena of two chunk buffers and a few counters, and per
// pair of ranks a lane for point-to-point messages. It knows no group, operation or element type.
namespace llmtrain {

inline constexpr int kMaxLocalRanks = 64;
inline constexpr int kGroupSlots = 11;  // groups that one rank can be in
inline constexpr std::size_t kChunkBytes = 512 * 1024;
inline constexpr std::size_t kLaneBytes = 64 * 1024;

// What a rank is about to do, so that its peers can compare it with what they do.
struct CallRecord {
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint32_t> operation{0};
  std::atomic<std::uint32_t> detail{0};
};

// Counters of one rank in one slot; `count` and `generation` are used in the cell of a group's first rank.
struct SlotCell {
  alignas(64) std::atomic<std::uint32_t> arrived{0};  // syncs this rank has entered
  CallRecord calls[2];                                // by parity of the sequence number
  alignas(64) std::atomic<std::uint32_t> count{0};    // arrivals of all ranks of the group
  WaitWord generation;                                // syncs that are complete
};

// Messages from one rank to another: two chunks of a ring.
struct Lane {
  WaitWord written;
  WaitWord read;
  alignas(64) std::atomic<std::uint64_t> message_bytes[2]{};  // of the message that the chunk belongs to
};

std::size_t shm_region_bytes(int world_size);

// Made by the agent: an anonymous, close-on-exec descriptor of shm_region_bytes(world_size) zeroes.
Result<UniqueFd> create_shm_region(int world_size);

class ShmRegion {
 public:
  // Maps a descriptor of create_shm_region. It may be closed afterwards.
  static Result<std::shared_ptr<ShmRegion>> map(int fd, int world_size);
  // For ranks that are threads of one process.
  static Result<std::shared_ptr<ShmRegion>> create_private(int world_size);

  ShmRegion(const ShmRegion&) = delete;
  ShmRegion& operator=(const ShmRegion&) = delete;
  ~ShmRegion();

  int world_size() const { return world_size_; }

  // A rank writes its process id when it starts, so that its peers can see it die.
  void attach(int rank);
  // A rank says that it will take part in nothing any more.
  void leave(int rank);
  // True when the rank left, or its process has ended. False for a rank that is not there yet.
  bool gone(int rank) const;

  // Makes every wait of every rank fail within a wait slice, naming `lost_rank`; for the agent.
  void abort(int lost_rank);
  int aborted_by() const;  // -1: not aborted

  SlotCell& cell(int slot, int rank) const;
  std::byte* chunk(int slot, int rank, int buffer) const;  // kChunkBytes, 64-byte aligned
  Lane& lane(int slot, int from, int to) const;
  std::byte* lane_chunk(int slot, int from, int to, int buffer) const;  // kLaneBytes

 private:
  ShmRegion(void* base, std::size_t bytes, int world_size)
      : base_(static_cast<std::byte*>(base)), bytes_(bytes), world_size_(world_size) {}
  static Result<std::shared_ptr<ShmRegion>> map_pages(int fd, int flags, int world_size);

  std::byte* base_;
  std::size_t bytes_;
  int world_size_;
};

}  // namespace llmtrain
