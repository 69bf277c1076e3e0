#include <chrono>

#include <nlohmann/json.hpp>

#include "llmtrain/report/report_text.hpp"

#include "run_files.hpp"

using namespace llmtrain;

TEST_CASE("history: the mark of a spec parts start-up from the time before it", "[report]") {
  test::RunFiles files;
  files.started(0, 1010, 0);
  files.step(1, 0, 1012);
  const RunHistory history = files.history({.started_at = {{0, 1000}}, .now = {}});
  CHECK(history.ledger.of(TimeClass::kStartup) == Approx(11));
  CHECK(history.ledger.wall() == Approx(12));
}

TEST_CASE("history: time goes on for a run that lives and for no other", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1002);
  CHECK(files.history().ledger.wall() == Approx(2));
  CHECK(files.history({.started_at = {}, .now = 1010}).ledger.wall() == Approx(10));
  files.event("run_finished", 0, 1003, R"("code":0,"step":1,"reason":"done")");
  CHECK(files.history({.started_at = {}, .now = 1010}).ledger.wall() == Approx(3));
}

TEST_CASE("history: a later launch makes the end of an earlier one history", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1002);
  files.event("run_finished", 0, 1003, R"("code":75,"step":1,"reason":"preempted")");
  REQUIRE(files.history().finish);
  CHECK(files.history().finish->code == 75);
  files.started(1, 1100, 1);
  CHECK_FALSE(files.history().finish);
  CHECK(files.history().incarnations.front().ended == "preempted (exit code 75)");
}

TEST_CASE("history: a restart that carries the next number ends the incarnation that failed", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.step(1, 0, 1002);
  files.event("worker_exited", 0, 1003, R"("rank":1,"cause":"SIGKILL")");
  files.event("restart", 1, 1004, R"("restarts":1,"max_restarts":10,"reason":"rank 1")");
  files.started(1, 1005, 0);
  files.step(1, 1, 1007);
  const RunHistory history = files.history();
  REQUIRE(history.incarnations.size() == 2);
  CHECK(history.incarnations[0].ended == "restarted: rank 1");
  CHECK(history.incarnations[1].ended.empty());
  CHECK(history.ledger.of(TimeClass::kRestart) == Approx(3));
}

TEST_CASE("history: a run of many steps is read in bounded time and its curve is short", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  std::string metrics;
  for (int i = 1; i <= 50'000; ++i)
    metrics += fmt::format(R"({{"step":{},"loss":2,"tok_s":100,"step_ms":100,"incarnation":0,"time":{:.1f}}})"
                           "\n",
                           i,
                           1000 + i / 10.0);
  files.put("metrics.jsonl", metrics);
  const RunHistory history = files.history();
  CHECK(history.ledger.productive_steps == 50'000);
  CHECK(history.loss.points().size() <= 2000);
  CHECK(history.ledger.effective_ratio() > 0.99);
}

// Scripts and dashboards read these keys; a new one may be added, none may go.
TEST_CASE("history: the keys of the JSON are stable", "[report]") {
  test::RunFiles files;
  files.started(0, 1000, 0);
  files.put("incidents/incident-0.json", R"({"incident":0,"incarnation":0,"time":1001})");
  const auto json = nlohmann::json::parse(report_json(files.history()));
  CHECK(json["schema"] == kReportSchema);
  for (const char* key : {"run_dir",
                          "run",
                          "layout",
                          "world_size",
                          "start",
                          "end",
                          "step",
                          "total_steps",
                          "loss",
                          "finished",
                          "wall_s",
                          "effective_ratio",
                          "productive_steps",
                          "replayed_steps",
                          "ledger",
                          "incarnations",
                          "incidents",
                          "checkpoints",
                          "evaluations",
                          "stops",
                          "input"})
    CHECK(json.contains(key));
  for (const char* key : {"productive_s",
                          "replayed_s",
                          "startup_s",
                          "evaluation_s",
                          "saves_s",
                          "detection_s",
                          "restart_s",
                          "down_s",
                          "unknown_s"})
    CHECK(json["ledger"].contains(key));
  for (const char* key : {"incident",
                          "incarnation",
                          "time",
                          "step",
                          "detected_by",
                          "first_cause",
                          "node",
                          "summary",
                          "verdict",
                          "waiting_for",
                          "action",
                          "detect_s",
                          "stop_s",
                          "rendezvous_s",
                          "load_s",
                          "first_step_s",
                          "resumed_step",
                          "lost_steps"})
    CHECK(json["incidents"][0].contains(key));
}

TEST_CASE("history: a straggler lasts until it keeps up again, or to the end", "[report]") {
  test::RunFiles files;
  const std::string slow = R"("ranks":"2, 3","node":1,"host":"h","cause":"communication","step":{},)"
                           R"("ms":400,"peers_ms":100,"step_ms":600)";
  const std::string over = R"("ranks":"2","node":1,"host":"h","cause":"{}","step":{})";
  files.started(0, 1000, 0);
  files.event("straggler", 0, 1001, fmt::format(fmt::runtime(slow), 30));
  files.event("straggler_over", 0, 1002, fmt::format(fmt::runtime(over), "data", 60));  // of another cause
  files.event("straggler_over", 0, 1003, fmt::format(fmt::runtime(over), "communication", 90));
  files.event("straggler", 0, 1004, fmt::format(fmt::runtime(slow), 150));
  const RunHistory history = files.history();
  REQUIRE(history.stragglers.size() == 2);
  CHECK(history.stragglers[0].step == 30);
  CHECK(history.stragglers[0].until_step == 90);
  CHECK(history.stragglers[1].until_step == -1);
  CHECK(history.stragglers[0].share() == Approx(0.5));
  CHECK(history.input.unknown_events == 0);
  const std::string text = report_text(history);
  CHECK(text.find("step 30 to 90: ranks 2, 3 on node 1 (h): communication took 400 ms") != std::string::npos);
  CHECK(text.find("step 150 to the end") != std::string::npos);
  const auto json = nlohmann::json::parse(report_json(history));
  CHECK(json["stragglers"][1]["until_step"].is_null());
}
