#include "llmtrain/shm/region.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/core/system_limits.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kPage = 4096;

struct alignas(64) RankLife {
  std::atomic<std::int32_t> pid{0};
  std::atomic<std::uint32_t> left{0};
};

struct RegionHeader {
  alignas(64) std::atomic<std::int32_t> aborted_by{0};  // lost rank + 1
  RankLife life[kMaxLocalRanks];
};

// Where the parts of a region begin, for a number of ranks.
struct RegionLayout {
  std::size_t cells, lanes, chunks, lane_chunks, end;

  explicit RegionLayout(int world_size) {
    const auto ranks = static_cast<std::size_t>(world_size);
    const std::size_t pairs = kGroupSlots * ranks * ranks;
    const auto after = [](std::size_t offset, std::size_t bytes) {
      return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(offset + bytes), kPage));
    };
    cells = after(0, sizeof(RegionHeader));
    lanes = after(cells, kGroupSlots * ranks * sizeof(SlotCell));
    chunks = after(lanes, pairs * sizeof(Lane));
    lane_chunks = after(chunks, kGroupSlots * ranks * 2 * kChunkBytes);
    end = after(lane_chunks, pairs * 2 * kLaneBytes);
  }
};

Status check_world_size(int world_size) {
  if (world_size >= 1 && world_size <= kMaxLocalRanks) return ok_status();
  return Error{.code = ErrorCode::kUnsupported,
               .message = fmt::format(
                   "{} ranks on one node; shared memory serves 1 to {}", world_size, kMaxLocalRanks),
               .hint = "use fewer processes per node"};
}

RegionHeader& header(std::byte* base) {
  return *reinterpret_cast<RegionHeader*>(base);
}

// A zombie has ended too, which kill(pid, 0) would not tell: a process descriptor is readable then.
bool process_ended(pid_t pid) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) return errno == ESRCH;
  pollfd poll_fd{.fd = process.get(), .events = POLLIN, .revents = 0};
  return ::poll(&poll_fd, 1, 0) == 1;
}

}  // namespace

std::size_t shm_region_bytes(int world_size) {
  return RegionLayout(world_size).end;
}

Result<UniqueFd> create_shm_region(int world_size) {
  LLMTRAIN_TRY(check_world_size(world_size));
  UniqueFd fd(::memfd_create("llmtrain", MFD_CLOEXEC));
  if (!fd.valid()) return system_error(ErrorCode::kPreflight, "cannot create the shared memory of the ranks");
  if (::ftruncate(fd.get(), static_cast<off_t>(shm_region_bytes(world_size))) != 0)
    return system_error(ErrorCode::kPreflight,
                        fmt::format("cannot size the shared memory of {} ranks", world_size));
  return fd;
}

Result<std::shared_ptr<ShmRegion>> ShmRegion::map_pages(int fd, int flags, int world_size) {
  const std::size_t bytes = shm_region_bytes(world_size);
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED)
    return system_error(ErrorCode::kPreflight, fmt::format("cannot map {} bytes of shared memory", bytes));
  return std::shared_ptr<ShmRegion>(new ShmRegion(base, bytes, world_size));
}

Result<std::shared_ptr<ShmRegion>> ShmRegion::map(int fd, int world_size) {
  LLMTRAIN_TRY(check_world_size(world_size));
  struct stat status {};
  if (::fstat(fd, &status) != 0)
    return system_error(ErrorCode::kPreflight, fmt::format("descriptor {} is no shared memory", fd));
  if (static_cast<std::size_t>(status.st_size) != shm_region_bytes(world_size)) {
    return Error{.code = ErrorCode::kInternal,
                 .message = fmt::format("the shared memory of descriptor {} has {} bytes; {} ranks need {}",
                                        fd,
                                        status.st_size,
                                        world_size,
                                        shm_region_bytes(world_size)),
                 .hint = "agent and worker must be the same binary and agree on the number of ranks"};
  }
  return map_pages(fd, 0, world_size);
}

Result<std::shared_ptr<ShmRegion>> ShmRegion::create_private(int world_size) {
  LLMTRAIN_TRY(check_world_size(world_size));
  return map_pages(-1, MAP_ANONYMOUS, world_size);
}

ShmRegion::~ShmRegion() {
  ::munmap(base_, bytes_);
}

void ShmRegion::attach(int rank) {
  LLMTRAIN_CHECK(rank >= 0 && rank < world_size_, "rank {} of {}", rank, world_size_);
  header(base_).life[rank].pid.store(::getpid(), std::memory_order_release);
}

void ShmRegion::leave(int rank) {
  header(base_).life[rank].left.store(1, std::memory_order_release);
}

bool ShmRegion::gone(int rank) const {
  const RankLife& life = header(base_).life[rank];
  if (life.left.load(std::memory_order_acquire) != 0) return true;
  const pid_t pid = life.pid.load(std::memory_order_acquire);
  return pid != 0 && pid != ::getpid() && process_ended(pid);
}

void ShmRegion::abort(int lost_rank) {
  std::int32_t nobody = 0;  // the first cause stays
  header(base_).aborted_by.compare_exchange_strong(nobody, lost_rank + 1);
}

int ShmRegion::aborted_by() const {
  return header(base_).aborted_by.load(std::memory_order_acquire) - 1;
}

SlotCell& ShmRegion::cell(int slot, int rank) const {
  auto* cells = reinterpret_cast<SlotCell*>(base_ + RegionLayout(world_size_).cells);
  return cells[slot * world_size_ + rank];
}

std::byte* ShmRegion::chunk(int slot, int rank, int buffer) const {
  const auto index = static_cast<std::size_t>((slot * world_size_ + rank) * 2 + buffer);
  return base_ + RegionLayout(world_size_).chunks + index * kChunkBytes;
}

Lane& ShmRegion::lane(int slot, int from, int to) const {
  auto* lanes = reinterpret_cast<Lane*>(base_ + RegionLayout(world_size_).lanes);
  return lanes[(slot * world_size_ + from) * world_size_ + to];
}

std::byte* ShmRegion::lane_chunk(int slot, int from, int to, int buffer) const {
  const auto index = static_cast<std::size_t>(((slot * world_size_ + from) * world_size_ + to) * 2 + buffer);
  return base_ + RegionLayout(world_size_).lane_chunks + index * kLaneBytes;
}

}  // namespace llmtrain
