#include "llmtrain/schedule/generate.hpp"

#include <algorithm>

#include "llmtrain/schedule/check.hpp"
#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/in_flight.hpp"

#include "schedule_support.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

std::string refusal(const ScheduleRequest& request) {
  const auto schedule = generate(request);
  REQUIRE_FALSE(schedule);
  CHECK(schedule.error().code == ErrorCode::kInvalidSpec);
  return to_string(schedule.error());
}

int peak(const Schedule& schedule, int stage) {
  return in_flight(schedule)[static_cast<std::size_t>(stage)].peak;
}

}  // namespace

TEST_CASE("generate: the check accepts every schedule") {
  int count = 0;
  for_each_schedule([&](const Schedule& schedule) {
    ++count;
    const auto problems = check(schedule);
    if (!problems.empty()) FAIL(schedule.name << ": " << problems.front());
  });
  CHECK(count == 7 * 8 * 32);
}

TEST_CASE("generate: the programs of a small pipeline") {
  CHECK(to_csv(make("gpipe", 2, 2, 1)) == "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1\n");
  CHECK(to_csv(make("1f1b", 2, 3, 1)) == "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n");
  CHECK(to_csv(make("zb-h1", 2, 2, 1)) == "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  CHECK(to_csv(make("zbv", 1, 1, 2)) == "0F0,1F0,1I0,1W0,0I0,0W0\n");
  CHECK(to_csv(make("interleaved", 2, 2, 2)) ==
        "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3B0,3F1,3B1,1B0,1B1\n");
}

TEST_CASE("generate: what each stage keeps in flight") {
  for_each_schedule([](const Schedule& schedule) {
    const int p = schedule.num_stages(), m = schedule.num_micro_batches, v = schedule.map.num_chunks();
    for (int stage = 0; stage < p; ++stage) {
      const int found = peak(schedule, stage);
      INFO(schedule.name << " pp " << p << " m " << m << " v " << v << " stage " << stage);
      if (schedule.name == "gpipe") REQUIRE(found == m);
      if (schedule.name == "1f1b") REQUIRE(found == std::min(m, p - stage));
      if (schedule.name == "zb-h1") REQUIRE(found == std::min(m, p));
      if (schedule.name == "zbv" && m >= 2 * p - 1) REQUIRE(found == std::min(2 * m, 2 * p));
      if (schedule.name == "zbv") REQUIRE(found <= std::min(2 * m, 2 * p));
      if (schedule.name == "interleaved") {
        const int num_groups = std::max(1, m / p), group = (m + num_groups - 1) / num_groups;
        REQUIRE(found == std::min(v * m, (v - 1) * group + 2 * (p - 1 - stage) + 1));
      }
    }
  });
}

TEST_CASE("generate: a count of virtual stages is chosen where none is asked for") {
  for (const std::string_view name : schedule_names()) {
    const auto schedule = generate({std::string(name), 2, 4, {}});
    REQUIRE(schedule);
    CHECK(schedule->map.num_chunks() == (name == "interleaved" || name == "zbv" ? 2 : 1));
  }
}

TEST_CASE("generate: what does not fit is refused with what does") {
  CHECK(refusal({"zb-h2", 2, 4, {}}) ==
        "`zb-h2` is not a known schedule; known are gpipe, 1f1b, interleaved, zb-h1, zbv, and the path of a "
        ".csv "
        "file");
  CHECK(refusal({"1f1b", 2, 4, 2}) ==
        "virtual_stages = 2 does not fit schedule 1f1b, which runs one virtual stage on each stage; "
        "virtual_stages = 1 works, or schedule interleaved");
  CHECK(refusal({"zbv", 2, 4, 3}) ==
        "virtual_stages = 3 does not fit schedule zbv, which runs exactly 2 virtual stages on each stage; "
        "virtual_stages = 2 works, or schedule interleaved");
  CHECK(refusal({"interleaved", 2, 4, 1}) ==
        "virtual_stages = 1 does not fit schedule interleaved, which runs at least 2 virtual stages on each "
        "stage; virtual_stages = 2 works, or schedule 1f1b");
  CHECK(refusal({"gpipe", 2, 4, 0}).find("virtual_stages = 1 works") != std::string::npos);
  CHECK(refusal({"1f1b", 0, 4, {}}).find("pp = 0") == 0);
  CHECK(refusal({"1f1b", 4, 0, {}}).find("0 micro-batches") == 0);
  CHECK(refusal({"1f1b", 4, -3, {}}).find("-3 micro-batches") == 0);
  CHECK(refusal({"1f1b", 2147483647, 2147483647, {}}).find("are more than 1048576 actions") !=
        std::string::npos);
}
