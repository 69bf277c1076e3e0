#include "llmtrain/report/run_status.hpp"

#include <nlohmann/json.hpp>

#include "run_files.hpp"

using namespace llmtrain;

namespace {

RunStatus status_of(const test::RunFiles& files, bool live) {
  const auto system = make_posix_filesystem();
  const auto status = read_status(*system, files.run(), live);
  REQUIRE(status.ok());
  return *status;
}

}  // namespace

TEST_CASE("status: from an empty directory to the end of a run", "[report]") {
  test::RunFiles files;
  CHECK(status_of(files, false).state == RunState::kNew);
  CHECK(status_of(files, true).state == RunState::kStarting);
  files.started(0, 1000, 0);
  CHECK(status_of(files, true).state == RunState::kStarting);
  files.step(1, 0, 1001);
  files.step(2, 0, 1003);
  RunStatus status = status_of(files, true);
  CHECK(status.state == RunState::kRunning);
  CHECK(status.step == 2);
  CHECK(status.seconds_per_step == 2.0);
  CHECK(status.seconds_left == 36.0);
  CHECK(status_of(files, false).state == RunState::kFailed);  // nobody wrote its end
  files.event("worker_exited", 0, 1004, R"("rank":1,"cause":"SIGKILL")");
  CHECK(status_of(files, true).state == RunState::kRestarting);
  files.event("restart", 1, 1005, R"("restarts":1,"max_restarts":10,"reason":"rank 1")");
  files.started(1, 1006, 1);
  CHECK(status_of(files, true).state == RunState::kRestarting);
  files.step(2, 1, 1007);
  status = status_of(files, true);
  CHECK(status.state == RunState::kRunning);
  CHECK(status.restarts == 1);
  CHECK(status.incarnation == 1);
  files.event("stop_requested", 1, 1008, R"("signal":"SIGTERM")");
  CHECK(status_of(files, true).why.find("SIGTERM") != std::string::npos);
  files.event("run_finished", 1, 1009, R"("code":75,"step":2,"reason":"preempted")");
  CHECK(status_of(files, false).state == RunState::kStopped);
  files.started(2, 1100, 2);
  status = status_of(files, true);
  CHECK(status.state == RunState::kStarting);
  CHECK(status.restarts == 0);
  files.step(3, 2, 1101);
  files.event("run_finished", 2, 1102, R"("code":0,"step":3,"reason":"done")");
  CHECK(status_of(files, false).state == RunState::kFinished);
  CHECK_FALSE(status_of(files, false).seconds_left);
}

TEST_CASE("status: what ended by itself says with which code", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.event("run_finished", 0, 1001, R"("code":66,"step":0,"reason":"restart budget spent")");
  const RunStatus status = status_of(files, false);
  CHECK(status.state == RunState::kFailed);
  CHECK(status.why == "restart budget spent (exit code 66)");
}

TEST_CASE("status: the agents' file names ranks and their phase while the launch lives, and not after",
          "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1001);
  StatusFile agents;
  agents.step = 1;
  agents.nodes.push_back({.node = 1, .host = "n1", .pid = 9, .control = "leader", .ranks = {}});
  agents.nodes.back().ranks.push_back(
      {.rank = 3, .pid = 12, .phase = "backward", .step = 1, .micro_batch = 2, .heartbeat_age_s = 0.5});
  files.put("control/status.json", to_json(agents));
  const std::string text = status_text(status_of(files, true), 1002.0);
  CHECK(text.find("node 1 n1 (pid 9): leader") != std::string::npos);
  CHECK(text.find("backward") != std::string::npos);
  CHECK(text.find("1s ago") != std::string::npos);
  CHECK(status_text(status_of(files, false), 1002.0).find("backward") == std::string::npos);
  files.put("control/status.json", "{");
  CHECK_FALSE(status_of(files, true).agents);
}

TEST_CASE("status: the keys of the JSON are stable", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.put("incidents/incident-4.json", R"({"incident":4,"incarnation":0,"time":1001,"summary":"s"})");
  const RunStatus status = status_of(files, true);
  const auto json = nlohmann::json::parse(status_json(status, 1));
  for (const char* key : {"schema",
                          "run_dir",
                          "run",
                          "state",
                          "why",
                          "live",
                          "step",
                          "total_steps",
                          "loss",
                          "tok_s",
                          "mfu",
                          "seconds_per_step",
                          "seconds_left",
                          "newest_time",
                          "world_size",
                          "layout",
                          "incarnation",
                          "restarts",
                          "max_restarts",
                          "checkpoint",
                          "checkpoint_problem",
                          "incidents",
                          "newest_incident",
                          "logs",
                          "nodes"})
    CHECK(json.contains(key));
  CHECK(json["newest_incident"]["incident"] == 4);
  const std::string line = status_json(status, -1);
  CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("status: stragglers are shown until they keep up, and not after a restart", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1001);
  const std::string slow =
      R"("ranks":"1","node":0,"host":"h","cause":"data","step":48,"ms":80,"peers_ms":0,"step_ms":160)";
  files.event("straggler", 0, 1002, slow);
  RunStatus status = status_of(files, true);
  REQUIRE(status.stragglers.size() == 1);
  CHECK(status_text(status, 1003.0)
            .find("straggler    rank 1 on node 0 (h): data since step 48, 50 % of a step") !=
        std::string::npos);
  CHECK(nlohmann::json::parse(status_json(status, 1))["stragglers"][0]["ranks"] == "1");
  files.event("straggler_over", 0, 1004, R"("ranks":"1","node":0,"host":"h","cause":"data","step":96)");
  CHECK(status_of(files, true).stragglers.empty());
  files.event("straggler", 0, 1005, slow);
  files.event("restart", 1, 1006, R"("restarts":1,"max_restarts":10,"reason":"rank 1")");
  CHECK(status_of(files, true).stragglers.empty());
}
