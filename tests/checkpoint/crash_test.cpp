#include <functional>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/checkpoint/retention.hpp"
#include "llmtrain/checkpoint/scan.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

// The promise under test: whatever fails, and whatever the disk forgets, the older checkpoint stays and no
// directory with a step's name is anything but complete.
namespace {

constexpr char kCheckpoints[] = "run/checkpoints";

void save_first(MemoryFileSystem& files) {
  REQUIRE(files.make_directory("run"));
  REQUIRE(files.sync_directory("."));
  REQUIRE(save(files, target_of(kCheckpoints, 5), make_sample(1), make_state(5)));
}

Result<Committed> save_second(MemoryFileSystem& files, std::int64_t epoch = 0) {
  TrainState state = make_state(10);
  state.resumed_from_step = epoch == 0 ? -1 : 5;
  return save(files, target_of(kCheckpoints, 10, epoch), make_sample(2), state);
}

// Every committed name is complete, and one of them can be gone on from.
std::int64_t newest_step(MemoryFileSystem& files) {
  const auto entries = list_checkpoints(files, kCheckpoints);
  REQUIRE(entries);
  for (const CheckpointEntry& entry : *entries)
    for (const Damage& damage : verify_checkpoint(files, entry.path, VerifyDepth::kFull).damages)
      FAIL(entry.path << ": " << to_string(damage));
  const auto selection = find_newest(files, kCheckpoints, VerifyDepth::kFull);
  REQUIRE(selection);
  REQUIRE(selection->chosen);
  return selection->chosen->step;
}

// How many operations `action` needs when nothing fails.
std::int64_t count_operations(const std::function<void(MemoryFileSystem&)>& prepare,
                              const std::function<void(MemoryFileSystem&)>& action) {
  MemoryFileSystem files;
  prepare(files);
  const std::int64_t before = files.num_operations();
  action(files);
  return files.num_operations() - before;
}

void next_incarnation_saves(MemoryFileSystem& files) {
  files.heal();
  REQUIRE(remove_leftovers(files, kCheckpoints, 1));
  REQUIRE(save_second(files, 1));
  CHECK(newest_step(files) == 10);
  const auto entries = files.list(kCheckpoints);
  REQUIRE(entries);
  for (const DirectoryEntry& entry : *entries) CHECK(parse_step_name(entry.name));
}

}  // namespace

TEST_CASE("crash: a failure at every single operation of a save", "[checkpoint][crash]") {
  const std::int64_t total =
      count_operations(save_first, [](MemoryFileSystem& files) { REQUIRE(save_second(files)); });
  REQUIRE(total > 15);
  for (std::int64_t n = 0; n < total; ++n) {
    for (const bool dies : {false, true}) {
      CAPTURE(n, dies);
      MemoryFileSystem files;
      save_first(files);
      files.fail_at(files.num_operations() + n, dies);
      const auto result = save_second(files);
      CHECK(!result);
      if (!result) CHECK(result.error().message.find("injected failure") != std::string::npos);
      files.heal();
      const std::int64_t newest = newest_step(files);
      CHECK((newest == 5 || newest == 10));  // 10: only the last directory flush failed
      next_incarnation_saves(files);
    }
  }
}

TEST_CASE("crash: all that was not synced is lost, at every point of a save", "[checkpoint][crash]") {
  const std::int64_t total =
      count_operations(save_first, [](MemoryFileSystem& files) { REQUIRE(save_second(files)); });
  for (std::int64_t n = 0; n <= total; ++n) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(n, seed);
      MemoryFileSystem files;
      save_first(files);
      files.fail_at(files.num_operations() + n, true);
      const auto result = save_second(files);
      CHECK(result.ok() == (n == total));
      if (seed == 0)
        files.drop_unsynced();
      else
        files.drop_some(seed);
      files.heal();
      const std::int64_t newest = newest_step(files);
      if (result) CHECK(newest == 10);  // what was reported as committed is durable
      CHECK((newest == 5 || newest == 10));
      if (seed == 0) next_incarnation_saves(files);
    }
  }
}

TEST_CASE("crash: deleting old checkpoints never leaves a half one or none", "[checkpoint][crash]") {
  const auto prepare = [](MemoryFileSystem& files) {
    save_first(files);
    REQUIRE(save_second(files));
  };
  const RetentionPolicy policy{.keep_last = 1};
  const std::int64_t total = count_operations(prepare, [&](MemoryFileSystem& files) {
    REQUIRE(apply_retention(files, kCheckpoints, policy).value() ==
            std::vector<std::string>{"step-00000005"});
  });
  for (std::int64_t n = 0; n <= total; ++n) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      CAPTURE(n, seed);
      MemoryFileSystem files;
      prepare(files);
      files.fail_at(files.num_operations() + n, true);
      CHECK(apply_retention(files, kCheckpoints, policy).ok() == (n == total));
      if (seed == 1) files.drop_unsynced();
      if (seed > 1) files.drop_some(seed);
      files.heal();
      CHECK(newest_step(files) == 10);
      REQUIRE(remove_leftovers(files, kCheckpoints, 0));
      REQUIRE(apply_retention(files, kCheckpoints, policy));
      CHECK(files.list(kCheckpoints).value().size() == 1);
      CHECK(newest_step(files) == 10);
    }
  }
}

TEST_CASE("crash: the fake forgets what was not synced", "[support]") {
  MemoryFileSystem files;
  REQUIRE(files.make_directory("d"));
  auto file = files.create("d/f");
  REQUIRE(file);
  REQUIRE((*file)->append(std::as_bytes(std::span("abc", 3))));
  REQUIRE((*file)->sync());
  REQUIRE(files.sync_directory("."));
  files.drop_unsynced();
  CHECK(files.info("d").value());
  CHECK(!files.info("d/f").value());  // its bytes were synced, its name was not
}
