#include "llmtrain/shm/collectives.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "llmtrain/core/check.hpp"

// All verbs pass a tensor chunk by chunk through two buffers per rank, with one sync per chunk.
// While peers still read the buffer of chunk k, the next chunk is written into the other one; a rank
// that comes back to a buffer has seen a sync that every reader entered after its last look at it.
namespace llmtrain {
namespace {

std::uint32_t detail_of(ElementType type, ReduceOp op) {
  return static_cast<std::uint32_t>(type) << 8 | static_cast<std::uint32_t>(op);
}

const std::byte* bytes(const void* p) {
  return static_cast<const std::byte*>(p);
}
std::byte* bytes(void* p) {
  return static_cast<std::byte*>(p);
}

void copy_bytes(void* to, const void* from, std::size_t n) {
  if (n != 0 && to != from) std::memcpy(to, from, n);
}

// A half-open range of bytes.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

constexpr std::size_t kCacheLine = 64;

std::size_t divide_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

// Below this size every rank reduces everything itself: one sync instead of two.
constexpr std::size_t kOneShotBytes = 8 * 1024;
// Chunks of a pipelined all_reduce: the buffers of all ranks together should stay in the cache.
constexpr std::size_t kAllReduceChunk = 256 * 1024;

class AllReduce {
 public:
  AllReduce(ShmGroup& group, void* inout, std::size_t total, ElementType type, ReduceOp op)
      : group_(group),
        inout_(bytes(inout)),
        total_(total),
        type_(type),
        op_(op),
        first_(group.next_buffer()) {}

  Status one_shot() {
    copy_bytes(group_.chunk(group_.rank(), first_), inout_, total_);
    LLMTRAIN_TRY(group_.sync());
    std::array<const void*, kMaxLocalRanks> inputs{};
    for (int r = 0; r < group_.size(); ++r) inputs[static_cast<std::size_t>(r)] = group_.chunk(r, first_);
    reduce_arrays(inout_, nullptr, inputs.data(), group_.size(), total_ / bytes_of(type_), type_, op_);
    return ok_status();
  }

  // Three stages, each one sync behind the other: chunk k is shared in round k, reduced (each rank its
  // part) in round k + 1 and collected in round k + 2. One buffer serves both ways, since a rank puts
  // its reduced part where its own input of that part would have been.
  Status pipelined() {
    const auto ranks = static_cast<std::size_t>(group_.size());
    share_ =
        divide_up(divide_up(total_, divide_up(total_, kAllReduceChunk)), ranks * kCacheLine) * kCacheLine;
    const auto chunks = static_cast<int>(divide_up(total_, share_ * ranks));
    for (int round = 0; round < chunks + 2; ++round) {
      if (round >= 2) collect(round - 2);
      if (round >= 1 && round - 1 < chunks) reduce(round - 1);
      if (round < chunks) share(round);
      if (round < chunks + 1) LLMTRAIN_TRY(group_.sync());
    }
    if (chunks % 2 == 0) group_.next_buffer();  // the buffer of the last chunk is the one still being read
    return ok_status();
  }

 private:
  std::byte* buffer(int member, int chunk) const { return group_.chunk(member, first_ ^ (chunk & 1)); }
  std::size_t begin(int chunk) const {
    return static_cast<std::size_t>(chunk) * share_ * static_cast<std::size_t>(group_.size());
  }
  // The part of a chunk that `member` reduces. It lies at the same place in each chunk, also in the last
  // and shorter one: peers may still collect the result of two chunks ago from the buffer.
  Range part(int chunk, int member) const {
    const std::size_t rest = total_ - begin(chunk);
    const std::size_t start = share_ * static_cast<std::size_t>(member);
    return {std::min(rest, start), std::min(rest, start + share_)};
  }

  void share(int chunk) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      const Range range = part(chunk, peer);
      if (peer != group_.rank())
        copy_bytes(
            buffer(group_.rank(), chunk) + range.begin, inout_ + begin(chunk) + range.begin, range.size());
    }
  }

  void reduce(int chunk) {
    const Range own = part(chunk, group_.rank());
    if (own.size() == 0) return;
    std::array<const void*, kMaxLocalRanks> inputs{};
    for (int r = 0; r < group_.size(); ++r)
      inputs[static_cast<std::size_t>(r)] = buffer(r, chunk) + own.begin;
    std::byte* result = inout_ + begin(chunk) + own.begin;
    inputs[static_cast<std::size_t>(group_.rank())] = result;
    reduce_arrays(result,
                  buffer(group_.rank(), chunk) + own.begin,
                  inputs.data(),
                  group_.size(),
                  own.size() / bytes_of(type_),
                  type_,
                  op_);
  }

  void collect(int chunk) {
    for (int peer = 0; peer < group_.size(); ++peer) {
      const Range range = part(chunk, peer);
      if (peer != group_.rank())
        copy_bytes(inout_ + begin(chunk) + range.begin, buffer(peer, chunk) + range.begin, range.size());
    }
  }

  ShmGroup& group_;
  std::byte* inout_;
  std::size_t total_;
  ElementType type_;
  ReduceOp op_;
  int first_;              // buffer of chunk 0
  std::size_t share_ = 0;  // bytes of a chunk that one rank reduces
};

}  // namespace

Status shm_barrier(ShmGroup& group) {
  LLMTRAIN_TRY(group.begin({.operation = "barrier"}));
  return group.sync();
}

Status shm_all_reduce(ShmGroup& group, void* inout, std::size_t count, ElementType type, ReduceOp op) {
  const std::size_t total = count * bytes_of(type);
  LLMTRAIN_TRY(group.begin({.operation = "all_reduce", .bytes = total, .detail = detail_of(type, op)}));
  AllReduce run(group, inout, total, type, op);
  return total <= kOneShotBytes ? run.one_shot() : run.pipelined();
}

Status shm_reduce_scatter(
    ShmGroup& group, const void* in, void* out, std::size_t count, ElementType type, ReduceOp op) {
  const std::size_t total = count * bytes_of(type);  // of one part
  LLMTRAIN_TRY(group.begin({.operation = "reduce_scatter", .bytes = total, .detail = detail_of(type, op)}));
  const auto size = static_cast<std::size_t>(group.size());
  const std::size_t step = kChunkBytes / size / 64 * 64;  // bytes of each part that pass at a time
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(step, total - begin);
    const int buffer = group.next_buffer();
    std::array<const void*, kMaxLocalRanks> inputs{};
    for (int peer = 0; peer < group.size(); ++peer) {
      const std::byte* part = bytes(in) + static_cast<std::size_t>(peer) * total + begin;
      inputs[static_cast<std::size_t>(peer)] =
          peer == group.rank() ? part
                               : group.chunk(peer, buffer) + static_cast<std::size_t>(group.rank()) * step;
      if (peer != group.rank())
        copy_bytes(group.chunk(group.rank(), buffer) + static_cast<std::size_t>(peer) * step, part, n);
    }
    LLMTRAIN_TRY(group.sync());
    reduce_arrays(bytes(out) + begin, nullptr, inputs.data(), group.size(), n / bytes_of(type), type, op);
    begin += n;
  } while (begin < total);
  return ok_status();
}

Status shm_all_gather(ShmGroup& group, const void* in, void* out, std::size_t total) {
  LLMTRAIN_TRY(group.begin({.operation = "all_gather", .bytes = total}));
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(kChunkBytes, total - begin);
    const int buffer = group.next_buffer();
    copy_bytes(group.chunk(group.rank(), buffer), bytes(in) + begin, n);
    LLMTRAIN_TRY(group.sync());
    for (int peer = 0; peer < group.size(); ++peer) {
      std::byte* place = bytes(out) + static_cast<std::size_t>(peer) * total + begin;
      if (peer == group.rank())
        copy_bytes(place, bytes(in) + begin, n);
      else
        copy_bytes(place, group.chunk(peer, buffer), n);
    }
    begin += n;
  } while (begin < total);
  return ok_status();
}

Status shm_all_to_all(ShmGroup& group, const void* in, void* out, std::size_t total) {
  LLMTRAIN_TRY(group.begin({.operation = "all_to_all", .bytes = total}));
  const std::size_t step = kChunkBytes / static_cast<std::size_t>(group.size()) / 64 * 64;
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(step, total - begin);
    const int buffer = group.next_buffer();
    for (int peer = 0; peer < group.size(); ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      copy_bytes(group.chunk(group.rank(), buffer) + index * step, bytes(in) + index * total + begin, n);
    }
    LLMTRAIN_TRY(group.sync());
    for (int peer = 0; peer < group.size(); ++peer) {
      const auto index = static_cast<std::size_t>(peer);
      copy_bytes(bytes(out) + index * total + begin,
                 group.chunk(peer, buffer) + static_cast<std::size_t>(group.rank()) * step,
                 n);
    }
    begin += n;
  } while (begin < total);
  return ok_status();
}

Status shm_broadcast(ShmGroup& group, void* inout, std::size_t total, int root) {
  LLMTRAIN_CHECK(root >= 0 && root < group.size(), "broadcast from rank {} of {}", root, group.size());
  LLMTRAIN_TRY(
      group.begin({.operation = "broadcast", .bytes = total, .detail = static_cast<std::uint32_t>(root)}));
  std::size_t begin = 0;
  do {
    const std::size_t n = std::min(kChunkBytes, total - begin);
    const int buffer = group.next_buffer();
    if (group.rank() == root) copy_bytes(group.chunk(root, buffer), bytes(inout) + begin, n);
    LLMTRAIN_TRY(group.sync());
    if (group.rank() != root) copy_bytes(bytes(inout) + begin, group.chunk(root, buffer), n);
    begin += n;
  } while (begin < total);
  return ok_status();
}

}  // namespace llmtrain
