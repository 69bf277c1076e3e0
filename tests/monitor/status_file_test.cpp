#include "llmtrain/monitor/status_file.hpp"

#include <cmath>
#include <filesystem>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

namespace {

StatusFile sample() {
  StatusFile status{.counter = 7,
                    .time = 1767225600.5,
                    .epoch = 2,
                    .incarnation = 3,
                    .state = "running",
                    .step = 40,
                    .total_steps = 100,
                    .restarts = 1,
                    .max_restarts = 10,
                    .nodes = {}};
  NodeStatus node{.node = 1, .host = "n1", .pid = 55, .control = "member", .ranks = {}};
  node.ranks.push_back(
      {.rank = 2, .pid = 56, .phase = "backward", .step = 40, .micro_batch = 3, .heartbeat_age_s = 0.25});
  status.nodes.push_back(node);
  return status;
}

}  // namespace

TEST_CASE("status file: what is written is read", "[monitor]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "status.json";
  const auto files = make_posix_filesystem();
  REQUIRE(write_status_file(*files, path, sample()).ok());
  const auto read = read_status_file(*files, path);
  REQUIRE(read.ok());
  CHECK(*read == sample());
  CHECK_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST_CASE("status file: numbers that are none and bytes that are no text do no harm", "[monitor]") {
  StatusFile status = sample();
  status.nodes.front().host = "n\xff";
  status.nodes.front().ranks.front().heartbeat_age_s = std::nan("");
  const auto read = status_file_from_json(to_json(status), "s");
  REQUIRE(read.ok());
  CHECK(read->nodes.front().ranks.front().heartbeat_age_s == 0);
}

TEST_CASE("status file: a newer writer's keys are passed over, wrong ones are refused", "[monitor]") {
  const auto more =
      status_file_from_json(R"({"version":1,"step":3,"weather":[1],"nodes":[{"node":4,"x":1},5]})", "s");
  REQUIRE(more.ok());
  CHECK(more->step == 3);
  CHECK(more->nodes.size() == 1);
  for (const char* text : {"",
                           "[]",
                           "{}",
                           R"({"version":2})",
                           R"({"version":1,"step":"3"})",
                           R"({"version":1,"nodes":{}})",
                           R"({"version":1,"nodes":[{"ranks":3}]})"}) {
    INFO(text);
    const auto read = status_file_from_json(text, "s");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().message.starts_with("s: "));
  }
}
