#include "llmtrain/shm/collectives.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include "llmtrain/core/half_floats.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

using namespace llmtrain;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

ShmGroup world(const std::shared_ptr<ShmRegion>& region, int rank) {
  std::vector<int> members(static_cast<std::size_t>(region->world_size()));
  std::iota(members.begin(), members.end(), 0);
  return ShmGroup(region, {.name = "world", .slot = 0, .members = members, .global_ranks = {}, .rank = rank});
}

void ok(const Status& status) {
  if (!status) throw std::runtime_error(to_string(status.error()));
}

// Inexact in every type, different for each rank.
double value(int rank, std::size_t i) {
  return 1.0 / static_cast<double>(3 + (i * 7 + static_cast<std::size_t>(rank) * 13) % 9973) - 0.01 * rank;
}

struct TypeCase {
  ElementType type;
  void (*store)(std::byte* at, double x);
  double (*load)(const std::byte* at);
};

template <class T>
void store_as(std::byte* at, double x) {
  const T y = static_cast<T>(std::is_integral_v<T> ? x * 1000 : x);
  std::memcpy(at, &y, sizeof(y));
}
template <class T>
double load_as(const std::byte* at) {
  T y;
  std::memcpy(&y, at, sizeof(y));
  return static_cast<double>(y);
}
template <std::uint16_t (*Narrow)(float)>
void store_half(std::byte* at, double x) {
  const std::uint16_t y = Narrow(static_cast<float>(x));
  std::memcpy(at, &y, sizeof(y));
}
template <float (*Widen)(std::uint16_t)>
double load_half(const std::byte* at) {
  std::uint16_t y;
  std::memcpy(&y, at, sizeof(y));
  return static_cast<double>(Widen(y));
}

const std::vector<TypeCase> kTypes = {
    {ElementType::kFp32, store_as<float>, load_as<float>},
    {ElementType::kFp64, store_as<double>, load_as<double>},
    {ElementType::kInt64, store_as<std::int64_t>, load_as<std::int64_t>},
    {ElementType::kBf16, store_half<bf16_of_float>, load_half<float_of_bf16>},
    {ElementType::kFp16, store_half<fp16_of_float>, load_half<float_of_fp16>},
};

using Bytes = std::vector<std::byte>;

Bytes input(const TypeCase& t, int rank, std::size_t count) {
  Bytes data(count * bytes_of(t.type));
  for (std::size_t i = 0; i < count; ++i) t.store(data.data() + i * bytes_of(t.type), value(rank, i));
  return data;
}

// In rank order, one rounding at the end for the 16-bit types, one per addition for the others.
Bytes expected(const TypeCase& t, int ranks, std::size_t count, ReduceOp op) {
  Bytes out(count * bytes_of(t.type));
  const bool in_float = t.type != ElementType::kFp64 && t.type != ElementType::kInt64;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte element[8];
    double sum = 0;
    for (int r = 0; r < ranks; ++r) {
      t.store(element, value(r, i));
      const double x = t.load(element);
      if (r == 0)
        sum = x;
      else if (op == ReduceOp::kMax)
        sum = std::max(sum, x);
      else
        sum = in_float ? static_cast<double>(static_cast<float>(sum) + static_cast<float>(x)) : sum + x;
    }
    if (t.type == ElementType::kInt64) {
      const auto exact = static_cast<std::int64_t>(sum);
      std::memcpy(out.data() + i * 8, &exact, 8);
    } else {
      t.store(out.data() + i * bytes_of(t.type), sum);
    }
  }
  return out;
}

const std::vector<std::size_t> kCounts = {0, 1, 7, 1000, 2049, 70'001};

}  // namespace

TEST_CASE("shm all_reduce: every type, size and group size gives the sum in rank order, bit for bit",
          "[shm]") {
  const int ranks = GENERATE(1, 2, 3, 4, 8);
  for (const TypeCase& t : kTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
      std::vector<Bytes> want;
      for (const std::size_t count : kCounts) want.push_back(expected(t, ranks, count, op));
      spawn_ranks(ranks, [&](int rank, const auto& region) {
        ShmGroup group = world(region, rank);
        for (std::size_t c = 0; c < kCounts.size(); ++c) {
          Bytes data = input(t, rank, kCounts[c]);
          ok(shm_all_reduce(group, data.data(), kCounts[c], t.type, op));
          require(data == want[c],
                  fmt::format("{} {} of {} elements over {} ranks differs on rank {}",
                              to_string(op),
                              to_string(t.type),
                              kCounts[c],
                              ranks,
                              rank));
        }
      });
    }
  }
}

TEST_CASE("shm all_reduce: many small and large calls in a row keep their buffers apart", "[shm]") {
  const int ranks = GENERATE(2, 4);
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    ShmGroup group = world(region, rank);
    std::uint32_t state = 1;  // the same sequence of sizes on all ranks
    for (int call = 0; call < 200; ++call) {
      state = state * 1664525u + 1013904223u;
      const std::size_t count = call % 10 == 0 ? (state >> 8) % 150'000 : (state >> 8) % 3000;
      const auto base = static_cast<std::int64_t>(call);
      std::vector<std::int64_t> data(count);
      switch ((state >> 4) % 4) {
        case 0:
          for (std::size_t i = 0; i < count; ++i) data[i] = base + static_cast<std::int64_t>(i) * (rank + 1);
          ok(shm_all_reduce(group, data.data(), count, ElementType::kInt64, ReduceOp::kSum));
          for (std::size_t i = 0; i < count; ++i)
            require(data[i] == ranks * base + static_cast<std::int64_t>(i) * ranks * (ranks + 1) / 2,
                    "all_reduce");
          break;
        case 1: {
          const int root = call % ranks;
          for (std::size_t i = 0; i < count; ++i)
            data[i] = rank == root ? base + static_cast<std::int64_t>(i) : -1;
          ok(shm_broadcast(group, data.data(), count * 8, root));
          for (std::size_t i = 0; i < count; ++i)
            require(data[i] == base + static_cast<std::int64_t>(i), "broadcast");
          break;
        }
        case 2: {
          std::vector<std::int64_t> out(count * static_cast<std::size_t>(ranks));
          for (std::size_t i = 0; i < count; ++i) data[i] = base + rank;
          ok(shm_all_gather(group, data.data(), out.data(), count * 8));
          for (std::size_t i = 0; i < out.size(); ++i)
            require(out[i] == base + static_cast<std::int64_t>(i / count), "all_gather");
          break;
        }
        default: ok(shm_barrier(group));
      }
    }
  });
}

TEST_CASE("shm reduce_scatter and all_gather: together they are an all_reduce", "[shm]") {
  const int ranks = GENERATE(1, 2, 3, 8);
  for (const TypeCase& t : kTypes) {
    spawn_ranks(ranks, [&](int rank, const auto& region) {
      ShmGroup group = world(region, rank);
      for (const std::size_t count : {std::size_t{0}, std::size_t{5}, std::size_t{70'000}}) {
        const std::size_t all = count * static_cast<std::size_t>(ranks);
        Bytes whole = input(t, rank, all);
        Bytes part(count * bytes_of(t.type));
        Bytes gathered(whole.size());
        ok(shm_reduce_scatter(group, whole.data(), part.data(), count, t.type, ReduceOp::kSum));
        ok(shm_all_gather(group, part.data(), gathered.data(), part.size()));
        ok(shm_all_reduce(group, whole.data(), all, t.type, ReduceOp::kSum));
        require(gathered == whole, fmt::format("{} x {}", count, to_string(t.type)));
      }
    });
  }
}

TEST_CASE("shm all_to_all: part r goes to rank r", "[shm]") {
  const int ranks = GENERATE(1, 2, 3, 8);
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    ShmGroup group = world(region, rank);
    const auto size = static_cast<std::size_t>(ranks);
    for (const std::size_t count : {std::size_t{0}, std::size_t{3}, std::size_t{100'003}}) {
      std::vector<std::uint32_t> in(size * count), out(size * count);
      for (std::size_t to = 0; to < size; ++to)
        for (std::size_t i = 0; i < count; ++i)
          in[to * count + i] =
              static_cast<std::uint32_t>(static_cast<std::size_t>(rank) * 1'000'000 + to * 100'000'000 + i);
      ok(shm_all_to_all(group, in.data(), out.data(), count * 4));
      for (std::size_t from = 0; from < size; ++from)
        for (std::size_t i = 0; i < count; ++i)
          require(
              out[from * count + i] == from * 1'000'000 + static_cast<std::size_t>(rank) * 100'000'000 + i,
              "all_to_all");
    }
  });
}

TEST_CASE("shm groups: subgroups of several slots work at the same time", "[shm]") {
  // A 2 x 2 x 2 mesh; each rank is in a pair along every axis, and in the world.
  spawn_ranks(8, [&](int rank, const auto& region) {
    ShmGroup everyone = world(region, rank);
    std::vector<std::unique_ptr<ShmGroup>> axes;
    for (int axis = 0; axis < 3; ++axis) {
      const int low = rank & ~(1 << axis);
      axes.push_back(std::make_unique<ShmGroup>(region,
                                                ShmGroupOptions{.name = "axis",
                                                                .slot = axis + 1,
                                                                .members = {low, low | 1 << axis},
                                                                .global_ranks = {},
                                                                .rank = rank >> axis & 1}));
    }
    for (int round = 0; round < 50; ++round) {
      std::vector<std::int64_t> data(round % 5 == 0 ? 50'000 : 10, 1 << rank);
      for (auto& axis : axes)
        ok(shm_all_reduce(*axis, data.data(), data.size(), ElementType::kInt64, ReduceOp::kSum));
      for (const std::int64_t x : data) require(x == 255, "the sum over all axes is the sum over the world");
      std::int64_t one = 1;
      ok(shm_all_reduce(everyone, &one, 1, ElementType::kInt64, ReduceOp::kSum));
      require(one == 8, "world");
    }
  });
}

TEST_CASE("shm all_reduce: a NaN of one rank reaches all of them, in sums and maxima", "[shm]") {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    for (int poisoned = 0; poisoned < 3; ++poisoned) {
      spawn_ranks(3, [&](int rank, const auto& region) {
        ShmGroup group = world(region, rank);
        float x = rank == poisoned ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
        ok(shm_all_reduce(group, &x, 1, ElementType::kFp32, op));
        require(std::isnan(x), "NaN was lost");
      });
    }
  }
}
