#include "llmtrain/diagnosis/incident.hpp"

#include <cstring>
#include <new>

#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/launch/incident_recorder.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

namespace {

void begin_collective(BlackBox& box, const char* group, const char* op, std::uint64_t sequence) {
  CollectiveRecord& record = box.ring[box.num_collectives.load() % BlackBox::kRingSize];
  std::strncpy(record.group.data(), group, record.group.size());
  std::strncpy(record.op.data(), op, record.op.size());
  record.sequence = sequence;
  record.bytes = 1024;
  record.finished_ns = 0;
  ++box.num_collectives;
}

nlohmann::json written(FileSystem& files, const RunDir& run, int number) {
  const auto text = read_file(files, run.incident(number).string(), 1 << 20);
  REQUIRE(text.ok());
  return nlohmann::json::parse(*text);
}

}  // namespace

TEST_CASE("incident: a black box is read whatever it holds", "[launch]") {
  BlackBox box;
  CHECK_FALSE(look_at(3, box, 5'000'000'000).collective.has_value());
  box.step = 7;
  box.phase = Phase::kBackward;
  box.heartbeat_ns = 3'000'000'000;
  begin_collective(box, "a-name-too-long-for-its-place", "all_reduce", 41);
  const RankNote note = look_at(3, box, 5'000'000'000);
  CHECK(note.rank == 3);
  CHECK(note.step == 7);
  CHECK(note.phase == "backward");
  CHECK(note.heartbeat_age_s == Approx(2.0));
  REQUIRE(note.collective.has_value());
  CHECK(note.collective->group == "a-name-too-long-");
  CHECK(note.collective->op == "all_reduce");
  CHECK(note.collective->sequence == 41);
  CHECK_FALSE(note.collective->finished);
  box.phase = static_cast<Phase>(77);
  CHECK(look_at(3, box, 0).phase == "unknown");
}

TEST_CASE("incident: a box tells the newest call of each group and the one that its rank stands in",
          "[launch]") {
  BlackBox box;
  begin_collective(box, "dp", "all_reduce", 1);
  box.ring[0].finished_ns = 1;
  begin_collective(box, "dp", "all_reduce", 2);
  begin_collective(box, "dp", "all_reduce", 3);
  begin_collective(box, "world", "barrier", 1);
  CHECK_FALSE(look_at(0, box, 0).waiting.has_value());  // begun, but the rank computes meanwhile
  std::strcpy(box.standing.group.data(), "dp");
  std::strcpy(box.standing.op.data(), "all_reduce");
  box.standing.sequence = 2;
  box.standing_number = 2;
  const RankNote note = look_at(0, box, 0);
  REQUIRE(note.waiting.has_value());
  CHECK(note.waiting->group == "dp");
  CHECK(note.waiting->sequence == 2);
  CHECK_FALSE(note.waiting->finished);
  REQUIRE(note.groups.size() == 2);
  CHECK(note.groups[0].group == "world");
  CHECK(note.groups[1].sequence == 3);
  CHECK(note.groups[1].count == 3);
  for (std::uint64_t k = 2; k < 40; ++k) begin_collective(box, "world", "barrier", k);
  CHECK(look_at(0, box, 0).groups.size() == 1);  // the ring holds no more
}

TEST_CASE("incident: laggards are those who have begun the fewest collectives", "[launch]") {
  const auto note = [](int rank, std::uint64_t count) {
    RankNote result;
    result.rank = rank;
    if (count > 0) result.collective = CollectiveNote{.count = count, .group = {}, .op = {}};
    return result;
  };
  CHECK(laggards({}).empty());
  CHECK(laggards({note(0, 5), note(1, 5)}).empty());
  CHECK(laggards({note(0, 5), note(1, 4), note(2, 5), note(3, 4)}) == std::vector<int>{1, 3});
  CHECK(laggards({note(0, 5), note(1, 0)}) == std::vector<int>{1});
}

TEST_CASE("incident: ends read like a person would say them", "[launch]") {
  CHECK(describe_end(true, 9) == "signal 9 (SIGKILL)");
  CHECK(describe_end(false, 73) == "exit 73: data error");
  CHECK(describe_end(false, 80) == "exit 80: lost a peer");
  CHECK(describe_end(false, 5) == "exit 5");
}

TEST_CASE("incident: the record follows the failure to its recovery", "[launch]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory.path());
  IncidentRecorder recorder(*files, run);
  BlackBox box;
  box.step = 8;
  box.phase = Phase::kReduce;
  begin_collective(box, "dp", "all_reduce", 17);
  recorder.begin(Instant{1000}, 1.5e9, 2, "process exit");
  recorder.begin(Instant{1100}, 1.6e9, 3, "later sign");  // changes nothing
  recorder.note_rank(look_at(1, box, 0));
  recorder.note_end(Instant{1000}, {.rank = 0, .pid = 10, .code = 80, .cause = "exit 80: lost a peer"});
  recorder.note_end(Instant{1002},
                    {.rank = 1, .pid = 11, .signaled = true, .code = 9, .cause = "signal 9 (SIGKILL)"});
  const Incident incident = recorder.close(Instant{1030}, 1, "restart 1 of 10");
  CHECK(incident.summary ==
        "rank 1: signal 9 (SIGKILL), while reducing gradients of step 9, in all_reduce 17 of dp");

  auto json = written(*files, run, 0);
  CHECK(json["first_cause"] == nlohmann::json({1}));
  CHECK(json["incarnation"] == 2);
  CHECK(json["detected_by"] == "process exit");
  CHECK(json["stop_ms"] == 30);
  CHECK(json["chain"].size() == 2);
  CHECK(json["chain"][1]["at_ms"] == 2);
  CHECK(json["black_boxes"][0]["collective"]["op"] == "all_reduce");
  CHECK(json["resumed_step"].is_null());

  recorder.resumed(5);
  recorder.step_finished(Instant{1900});
  recorder.step_finished(Instant{2900});  // only the first step counts
  json = written(*files, run, 0);
  CHECK(json["resumed_step"] == 5);
  CHECK(json["lost_steps"] == 3);
  CHECK(json["first_step_ms"] == 900);

  recorder.begin(Instant{3000}, 1.7e9, 4, "process exit");
  recorder.close(Instant{3000}, std::nullopt, "end the job");
  CHECK(written(*files, run, 1)["incarnation"] == 4);
  CHECK_FALSE(recorder.write_failure().has_value());
}
