#include "llmtrain/job/plants.hpp"

#include <set>

#include "llmtrain/job/shrink_job.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

JobSpec job(const std::vector<std::string>& overrides) {
  const JobReport report = test::check(test::kMinimal, overrides);
  INFO(test::messages_of(report));
  REQUIRE(report.job);
  return report.job->spec;
}

bool can_act(const char* name, const JobSpec& spec) {
  return find_plant(name)->room(spec).empty();
}

}  // namespace

TEST_CASE("plants: every bug has a name of its own and a line of text", "[job]") {
  std::set<std::string_view> names;
  std::set<Plant> values{Plant::kNone};
  for (const PlantEntry& entry : plants()) {
    CAPTURE(entry.name);
    CHECK(names.insert(entry.name).second);
    CHECK(values.insert(entry.plant).second);
    CHECK_FALSE(entry.text.empty());
    CHECK(find_plant(std::string(entry.name))->plant == entry.plant);
  }
  CHECK(names.size() >= 15);
}

TEST_CASE("plants: an unknown name is answered with the names that there are", "[job]") {
  const auto unknown = find_plant("gremlin");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kUsage);
  CHECK(unknown.error().message.find("stale-weights") != std::string::npos);
}

TEST_CASE("plants: on one rank nothing between ranks can go wrong", "[job]") {
  const JobSpec one = job({});
  for (const PlantEntry& entry : plants()) {
    CAPTURE(entry.name);
    CHECK_FALSE(entry.room(one).empty());
  }
}

TEST_CASE("plants: every job can be given room for every bug, and then needs no more", "[job]") {
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{},
                                                    {"launch.procs_per_node=2"},
                                                    {"batch.global_batch_size=16"},
                                                    {"parallelism={tp: 2, tp_shard_sequence: true}"},
                                                    {"parallelism={dp: 4, zero_stage: 3, dp_shard: 1}"},
                                                    {"model.family=gpt2", "parallelism.sp=2"}})
    for (const PlantEntry& entry : plants()) {
      CAPTURE(overrides, entry.name);
      std::vector<std::string> with_room = overrides;
      for (const std::string& more : entry.room(job(overrides))) with_room.push_back(more);
      const JobSpec spec = job(with_room);
      CHECK(entry.room(spec).empty());
      CHECK(shrink_job(spec, kProofRanks));
    }
}

TEST_CASE("plants: each needs what it breaks", "[job]") {
  const JobSpec tp = job({"parallelism.tp=2"});
  const JobSpec dp = job({"parallelism.dp=2", "batch.gradient_accumulation_steps=2"});
  const JobSpec shared =
      job({"parallelism.tp=4", "model.num_kv_heads=2", "parallelism.tp_shard_sequence=true"});
  const JobSpec gpt2 = job({"parallelism.tp=2", "model.family=gpt2"});
  CHECK(can_act("norm-replicas", tp));
  CHECK_FALSE(can_act("norm-replicas", dp));
  CHECK(can_act("wrong-sample", dp));
  CHECK_FALSE(can_act("wrong-sample", tp));
  CHECK(can_act("last-micro-batch", dp));
  CHECK_FALSE(can_act("last-micro-batch", tp));
  CHECK(can_act("kv-gradients", shared));
  CHECK_FALSE(can_act("kv-gradients", tp));
  CHECK(can_act("norm-gradients", shared));
  CHECK_FALSE(can_act("norm-gradients", tp));
  CHECK(can_act("row-bias", gpt2));
  CHECK_FALSE(can_act("row-bias", tp));
  CHECK(can_act("position-rows", gpt2));
  CHECK(can_act("tied-twice", gpt2));
  CHECK_FALSE(can_act("tied-twice", tp));
  CHECK(can_act("rope-base", tp));
  CHECK_FALSE(can_act("rope-base", gpt2));
}
