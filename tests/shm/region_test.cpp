#include "llmtrain/shm/region.hpp"

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("shm region: sizes and places do not overlap for any number of ranks", "[shm]") {
  for (const int ranks : {1, 2, 8, kMaxLocalRanks}) {
    const auto region = ShmRegion::create_private(ranks).value();
    const std::byte* last = nullptr;
    for (int slot = 0; slot < kGroupSlots; ++slot)
      for (int rank = 0; rank < ranks; ++rank)
        for (const int buffer : {0, 1}) {
          const std::byte* chunk = region->chunk(slot, rank, buffer);
          REQUIRE((last == nullptr || chunk == last + kChunkBytes));
          REQUIRE(reinterpret_cast<std::uintptr_t>(chunk) % 64 == 0);
          last = chunk;
        }
    const auto* first_cell = reinterpret_cast<std::byte*>(&region->cell(0, 0));
    const auto* last_cell = reinterpret_cast<std::byte*>(&region->cell(kGroupSlots - 1, ranks - 1));
    const auto* first_lane = reinterpret_cast<std::byte*>(&region->lane(0, 0, 0));
    const auto* last_lane =
        reinterpret_cast<std::byte*>(&region->lane(kGroupSlots - 1, ranks - 1, ranks - 1));
    CHECK(first_lane >= last_cell + sizeof(SlotCell));
    CHECK(region->chunk(0, 0, 0) >= last_lane + sizeof(Lane));
    CHECK(region->lane_chunk(0, 0, 0, 0) >= last + kChunkBytes);
    const std::byte* end = region->lane_chunk(kGroupSlots - 1, ranks - 1, ranks - 1, 1) + kLaneBytes;
    CHECK(end <= first_cell + shm_region_bytes(ranks));
  }
}

TEST_CASE("shm region: what the agent made can be mapped, and only that", "[shm]") {
  const UniqueFd fd = create_shm_region(4).value();
  const auto region = ShmRegion::map(fd.get(), 4).value();
  const auto again = ShmRegion::map(fd.get(), 4).value();
  region->chunk(1, 2, 0)[5] = std::byte{42};
  CHECK(again->chunk(1, 2, 0)[5] == std::byte{42});

  const auto wrong = ShmRegion::map(fd.get(), 2);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message.find("2 ranks need") != std::string::npos);
  CHECK_FALSE(ShmRegion::map(-1, 2).ok());
  CHECK_FALSE(create_shm_region(0).ok());
  const auto many = create_shm_region(kMaxLocalRanks + 1);
  REQUIRE_FALSE(many);
  CHECK(many.error().message.find("65 ranks on one node") != std::string::npos);
}

TEST_CASE("shm region: it has no name and takes no memory before it is used", "[shm]") {
  const UniqueFd fd = create_shm_region(kMaxLocalRanks).value();
  CHECK(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd.get()))
            .string()
            .find("/memfd:llmtrain") == 0);
  struct stat status {};
  REQUIRE(::fstat(fd.get(), &status) == 0);
  CHECK(status.st_blocks == 0);
}

TEST_CASE("shm region: ranks that left, were never there or are alive", "[shm]") {
  const auto region = ShmRegion::create_private(3).value();
  CHECK_FALSE(region->gone(0));
  region->attach(0);
  CHECK_FALSE(region->gone(0));
  region->leave(0);
  CHECK(region->gone(0));
  CHECK(region->aborted_by() == -1);
  region->abort(0);
  CHECK(region->aborted_by() == 0);
}
