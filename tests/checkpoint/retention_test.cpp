#include "llmtrain/checkpoint/retention.hpp"

#include "llmtrain/checkpoint/names.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr char kCheckpoints[] = "checkpoints";

std::vector<std::int64_t> steps_left(MemoryFileSystem& files) {
  std::vector<std::int64_t> steps;
  const auto entries = list_checkpoints(files, kCheckpoints);
  REQUIRE(entries);
  for (const CheckpointEntry& entry : *entries) steps.push_back(entry.step);
  return steps;
}

CheckpointEntry entry(std::int64_t step, std::int64_t epoch = 0, std::string problem = "") {
  CheckpointEntry made;
  made.step = step;
  made.epoch = epoch;
  made.name = step_directory_name(step, epoch);
  made.problem = std::move(problem);
  return made;
}

std::vector<std::string> names(std::initializer_list<std::int64_t> steps) {
  std::vector<std::string> result;
  for (const std::int64_t step : steps) result.push_back(step_directory_name(step, 0));
  return result;
}

}  // namespace

TEST_CASE("retention: numbers, not text, decide what is newest (C11)", "[checkpoint]") {
  for (const auto& [saves, left] :
       std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>>{
           {{8, 9, 10, 11}, {11, 10}},
           {{99, 100, 101}, {101, 100}},
           {{99'999'999, 100'000'000}, {100'000'000, 99'999'999}}}) {
    MemoryFileSystem files;
    for (const std::int64_t step : saves) {
      REQUIRE(save(files, target_of(kCheckpoints, step), make_sample(), make_state(step)));
      REQUIRE(apply_retention(files, kCheckpoints, {.keep_last = 2}));
    }
    CHECK(steps_left(files) == left);
  }
}

TEST_CASE("retention: keep-last 1 always leaves a complete one (C12)", "[checkpoint]") {
  MemoryFileSystem files;
  for (const std::int64_t step : {2, 4, 6}) {
    REQUIRE(save(files, target_of(kCheckpoints, step), make_sample(), make_state(step)));
    REQUIRE(apply_retention(files, kCheckpoints, {.keep_last = 1}));
    CHECK(steps_left(files) == std::vector<std::int64_t>{step});
  }
}

TEST_CASE("retention: a manifest that is known is not read again, sizes are looked at every time",
          "[checkpoint]") {
  MemoryFileSystem files;
  KnownManifests known;
  const auto problem_of = [&](std::int64_t step, KnownManifests* memory) {
    const auto entries = list_checkpoints(files, kCheckpoints, memory);
    REQUIRE(entries);
    for (const CheckpointEntry& entry : *entries)
      if (entry.step == step) return entry.problem;
    return std::string("not there");
  };
  for (const std::int64_t step : {2, 4, 6}) {
    REQUIRE(save(files, target_of(kCheckpoints, step), make_sample(), make_state(step)));
    REQUIRE(apply_retention(files, kCheckpoints, {.keep_last = 2}, &known));
  }
  CHECK(known.size() == 2);  // what is deleted is forgotten
  CHECK(list_checkpoints(files, kCheckpoints, &known)->front().num_tensors ==
        list_checkpoints(files, kCheckpoints)->front().num_tensors);

  files.contents("checkpoints/step-00000006/manifest.json")[0] ^= 1;
  CHECK(problem_of(6, &known).empty());
  CHECK_FALSE(problem_of(6, nullptr).empty());

  files.contents("checkpoints/step-00000004/tokenizer.json") += "x";
  CHECK_FALSE(problem_of(4, &known).empty());
  REQUIRE(files.remove_file("checkpoints/step-00000006/manifest.json"));
  CHECK(problem_of(6, &known).find("missing") != std::string::npos);
}

TEST_CASE("retention: the decision", "[checkpoint]") {
  const std::vector<CheckpointEntry> entries = {
      entry(30), entry(25), entry(20), entry(15), entry(10), entry(5), entry(0)};
  CHECK(decide_retention(entries, {.keep_last = 0}).empty());
  CHECK(decide_retention(entries, {.keep_last = 3}) == names({5, 10, 15}));
  CHECK(decide_retention(entries, {.keep_last = 2, .keep_every = 10}) == names({5, 15}));
  CHECK(decide_retention(entries, {.keep_last = 100}).empty());
  CHECK(decide_retention({}, {.keep_last = 1}).empty());

  SECTION("damaged ones do not count, and the last good one stays") {
    const std::vector<CheckpointEntry> damaged = {
        entry(30, 0, "bad"), entry(25, 0, "bad"), entry(20), entry(15, 0, "bad"), entry(10)};
    CHECK(decide_retention(damaged, {.keep_last = 1}) == names({10, 15}));
    CHECK(decide_retention(damaged, {.keep_last = 3}).empty());
    const std::vector<CheckpointEntry> all_bad = {entry(30, 0, "bad"), entry(25, 0, "bad")};
    CHECK(decide_retention(all_bad, {.keep_last = 1}).empty());
  }
  SECTION("a later epoch is newer than a higher step") {
    const std::vector<CheckpointEntry> epochs = {entry(30, 0), entry(20, 1), entry(10, 0)};
    CHECK(decide_retention(epochs, {.keep_last = 1}) == names({10, 30}));
  }
}

TEST_CASE("scan: epochs order before steps, and a rolled-back history is not accepted", "[checkpoint]") {
  MemoryFileSystem files;
  for (const std::int64_t step : {5, 10, 15})
    REQUIRE(save(files, target_of(kCheckpoints, step), make_sample(), make_state(step)));
  TrainState state = make_state(10);
  state.resumed_from_step = 5;
  const auto second = save(files, target_of(kCheckpoints, 10, 1), make_sample(3), state);
  REQUIRE(second);
  CHECK(second->name == "step-00000010.e1");
  const auto entries = list_checkpoints(files, kCheckpoints);
  REQUIRE(entries);
  std::vector<std::string> order;
  for (const CheckpointEntry& entry : *entries) order.push_back(entry.name + (entry.accepted ? "" : " off"));
  CHECK(order == std::vector<std::string>{
                     "step-00000010.e1", "step-00000015 off", "step-00000010 off", "step-00000005"});

  // The rolled-back steps are passed over, also when the newest is damaged.
  files.contents("checkpoints/step-00000010.e1/tokenizer.json")[0] ^= 1;
  CHECK(find_newest(files, kCheckpoints, VerifyDepth::kFull).value().chosen->name == "step-00000005");
  // Nothing committed is ever overwritten.
  const auto again = save(files, target_of(kCheckpoints, 10, 1), make_sample(4), state);
  REQUIRE(!again);
  CHECK(again.error().message.find("already committed") != std::string::npos);
  CHECK(find_newest(files, kCheckpoints, VerifyDepth::kFull, 4).value().chosen == std::nullopt);
}

TEST_CASE("scan: a step that does not exist is an error that lists what is there (C10)", "[checkpoint]") {
  MemoryFileSystem files;
  for (const std::int64_t step : {5, 10})
    REQUIRE(save(files, target_of(kCheckpoints, step), make_sample(), make_state(step)));
  CHECK(find_step(files, kCheckpoints, 10).value().name == "step-00000010");
  for (const std::int64_t step : {999, -2}) {
    const auto found = find_step(files, kCheckpoints, step);
    REQUIRE(!found);
    CHECK(found.error().code == ErrorCode::kNoCheckpoint);
    CHECK(to_string(found.error()).find("there are steps 5, 10") != std::string::npos);
  }
  CHECK(find_step(files, "nowhere", 5).error().code == ErrorCode::kNoCheckpoint);
  CHECK(resolve_checkpoint_path(files, "nowhere").error().code == ErrorCode::kUsage);
}

TEST_CASE("names: only what this program writes is a checkpoint", "[checkpoint]") {
  CHECK(parse_step_name("step-00000010")->step == 10);
  CHECK(parse_step_name("step-123456789")->step == 123'456'789);
  CHECK(parse_step_name("step-00000010.e3")->epoch == 3);
  for (const char* name : {"step-10",
                           "step-",
                           "step--0000002",
                           "step-00000010.tmp",
                           "step-00000010.e",
                           "step-0000001x",
                           ".step-00000010.e3.tmp",
                           "step-99999999999999999999"})
    CHECK(!parse_step_name(name));
  CHECK(parse_temporary_name(".step-00000010.e3.tmp")->epoch == 3);
  CHECK(!parse_temporary_name(".tmp"));
  CHECK(!parse_temporary_name(".step-00000010.tmp"));
}

TEST_CASE("leftovers: unfinished saves of older epochs go, those of a newer one stay", "[checkpoint]") {
  MemoryFileSystem files;
  REQUIRE(save(files, target_of(kCheckpoints, 5), make_sample(), make_state(5)));
  for (const char* name : {".step-00000010.e0.tmp", ".step-00000010.e2.tmp", ".trash-step-00000001", "notes"})
    REQUIRE(files.make_directory(std::string(kCheckpoints) + "/" + name));
  CHECK(remove_leftovers(files, kCheckpoints, 1).value() ==
        std::vector<std::string>{".step-00000010.e0.tmp", ".trash-step-00000001"});
  CHECK(files.info("checkpoints/.step-00000010.e2.tmp").value());
  CHECK(files.info("checkpoints/notes").value());
  CHECK(remove_leftovers(files, "nowhere", 1).value().empty());
}
