#include "tests/launch/launched_nodes.hpp"

// A job on several nodes: they meet, train, lose each other and come back.

using namespace llmtrain;
using namespace llmtrain::test;

TEST_CASE("nodes: two train together, the leader alone writes, and both end with 0", "[launch]") {
  LaunchedNodes nodes(2);
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(20);
  CHECK(nodes.job.metrics().size() == 20);
  CHECK(nodes.job.events("run_finished").size() == 1);
  CHECK(fs::exists(nodes.job.run_dir() / "logs/0/node0/rank1.err"));
  CHECK(fs::exists(nodes.job.run_dir() / "logs/0/node1/rank2.err"));
  CHECK_FALSE(fs::exists(nodes.job.run_dir() / "incidents"));
  // Whoever comes late finds a finished run.
  CHECK(nodes.wait(nodes.start(1)) == 0);
}

TEST_CASE("nodes: a killed worker on another node is named, and both go on", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=5 3:8:0:kill";
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(20);
  CHECK(nodes.job.incident(0)["first_cause"] == Json({3}));
  CHECK(nodes.job.events("restart").size() == 1);
}

TEST_CASE("nodes: a killed follower is lost, comes back by hand, and the run finishes", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=60 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(8);
  const pid_t orphan = nodes.worker(second, 2);
  REQUIRE(orphan > 0);
  nodes.signal(second, SIGKILL);
  CHECK(nodes.wait(second) == 137);
  until([&] { return !alive(orphan); });
  const int again = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(again) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
  CHECK(nodes.job.events("restart").size() == 1);
  CHECK(nodes.job.incident(0)["summary"].get<std::string>().find("node 1") != std::string::npos);
}

TEST_CASE("nodes: a killed leader is succeeded, comes back by hand, and the run finishes", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=60 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(8);
  nodes.signal(first, SIGKILL);
  CHECK(nodes.wait(first) == 137);
  const int again = nodes.start(0);
  CHECK(nodes.wait(second) == 0);
  CHECK(nodes.wait(again) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
}

TEST_CASE("nodes: a spare takes the place of a lost node", "[launch]") {
  LaunchedNodes nodes(2, "2:3");
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=60 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(3);
  const int spare = nodes.start(-1);
  until([&] { return nodes.console(spare).find("spare") != std::string::npos; });
  nodes.signal(second, SIGKILL);
  CHECK(nodes.wait(second) == 137);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(spare) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
}

TEST_CASE("nodes: a spare that nobody needed ends as the job does", "[launch]") {
  LaunchedNodes nodes(2, "2:3");
  nodes.job.script = "step_ms=20";
  const int code = GENERATE(0, 73);
  if (code != 0) nodes.job.script += " 1:15:0:exit73";
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(3);
  const int spare = nodes.start(-1);
  CHECK(nodes.wait(spare) == code);
  CHECK(nodes.wait(first) == code);
  CHECK(nodes.wait(second) == code);
}

TEST_CASE("nodes: a stop signal to any agent stops all at one step with 75; a second one at once",
          "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=100000 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(7);
  SECTION("to the follower") {
    nodes.signal(second, SIGTERM);
    CHECK(nodes.wait(second) == 75);
    CHECK(nodes.wait(first) == 75);
    CHECK(nodes.job.has_checkpoint(static_cast<int>(nodes.job.last_step())));
  }
  SECTION("to both at once, as a scheduler does") {
    nodes.signal(second, SIGTERM);
    nodes.signal(first, SIGTERM);
    CHECK(nodes.wait(second) == 75);
    CHECK(nodes.wait(first) == 75);
  }
}

TEST_CASE("nodes: a second stop signal kills everywhere", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20 ignore_stop";
  nodes.job.settings.push_back("train.duration=100000 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(7);
  nodes.signal(second, SIGTERM);
  until([&] { return !nodes.job.events("stop_requested").empty(); });
  nodes.signal(second, SIGTERM);
  CHECK(nodes.wait(second) == 76);
  CHECK(nodes.wait(first) == 76);
}

TEST_CASE("nodes: one with another spec is refused, and the others wait for a better one", "[launch]") {
  LaunchedNodes nodes(2);
  const int first = nodes.start(0);
  const int wrong = nodes.start(1, {"--set", "optimizer.lr=0.5"});
  CHECK(nodes.wait(wrong) == 2);
  INFO(nodes.console(wrong));
  CHECK(nodes.console(wrong).find("job") != std::string::npos);
  const int right = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(right) == 0);
  nodes.job.check_history(20);
}

TEST_CASE("nodes: output of all nodes is seen where the leader is, and the status file knows them",
          "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20 3:8:0:words 2:9:0:words";
  nodes.job.settings.push_back("train.duration=150 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1, {"--tee", "1:1", "--log-dir", nodes.job.directory() + "/there"});
  Json status;
  until([&] {
    status = Json::parse(slurp(nodes.job.run_dir() / "control/status.json"), nullptr, false);
    return nodes.job.last_step() >= 150 ||
           (status.is_object() && status["nodes"].size() == 2 && status["nodes"][1]["ranks"].size() == 2);
  });
  INFO(status.dump());
  REQUIRE(status["nodes"].size() == 2);
  CHECK(status["nodes"][0]["control"] == "leader");
  CHECK(status["nodes"][1]["control"] == "member");
  CHECK(status["nodes"][1]["pid"] == nodes.pid(second));
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  const std::string console = nodes.console(first);
  CHECK(console.find("rank 2: warning: something is odd") != std::string::npos);
  CHECK(console.find("rank 3: a line on stdout") != std::string::npos);
  CHECK(console.find("rank 2: a line on stdout") == std::string::npos);
  CHECK(fs::exists(nodes.job.directory() + "/there/0/node1/rank3.err"));
  CHECK(fs::exists(nodes.job.run_dir() / "logs/0/node0/rank0.err"));
  CHECK_FALSE(fs::exists(nodes.job.run_dir() / "logs/0/node1"));
}

TEST_CASE("nodes: a follower agent that is stopped is given up, and rejoins when it goes on", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=60 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(8);
  nodes.signal(second, SIGSTOP);
  until([&] { return fs::exists(nodes.job.run_dir() / "incidents/incident-0.json"); });
  nodes.signal(second, SIGCONT);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
}

TEST_CASE("nodes: a leader agent that is stopped is succeeded, and fenced when it goes on", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  nodes.job.settings.push_back("train.duration=60 steps");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(8);
  nodes.signal(first, SIGSTOP);
  until([&] { return nodes.console(second).find("node 1 leads") != std::string::npos; });
  nodes.signal(first, SIGCONT);
  CHECK(nodes.wait(first) == 69);
  const int again = nodes.start(0);
  CHECK(nodes.wait(second) == 0);
  CHECK(nodes.wait(again) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
}

TEST_CASE("nodes: a stopped worker is named and replaced", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=100 2:78:0:stop";  // late enough for the run's pace to be known
  nodes.job.settings.push_back("train.duration=80 steps");
  nodes.job.settings.push_back("resilience.hang_min_s=2");
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(80);
  CHECK(nodes.job.incident(0)["first_cause"] == Json({2}));
  CHECK(nodes.job.incident(0)["kind"] == "stopped");
}

TEST_CASE("nodes: an elastic job goes on with what is left, and with all again when the node is back",
          "[launch]") {
  LaunchedNodes nodes(2, "1:2");
  nodes.job.script = "step_ms=20";
  nodes.job.settings.insert(
      nodes.job.settings.end(),
      {"train.duration=120 steps", "resilience.elastic=true", "launch.join_timeout_s=3"});
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  nodes.wait_for_step(8);
  nodes.signal(second, SIGKILL);
  CHECK(nodes.wait(second) == 137);
  until([&] { return fs::exists(nodes.job.run_dir() / "logs/1") || !alive(nodes.pid(first)); });
  REQUIRE(alive(nodes.pid(first)));
  CHECK_FALSE(fs::exists(nodes.job.run_dir() / "logs/1/node1"));
  const std::string spec = slurp(nodes.job.run_dir() / "spec-1.yaml");
  CHECK(spec.find("dp: 2\n") != std::string::npos);
  CHECK(spec.find("gradient_accumulation_steps: 2\n") != std::string::npos);
  CHECK(slurp(nodes.job.run_dir() / "spec.yaml").find("dp: 4\n") != std::string::npos);
  nodes.wait_for_step(nodes.job.last_step() + 3);
  const int again = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(again) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(120);
  CHECK(fs::exists(nodes.job.run_dir() / "logs/2/node1/rank3.err"));
  const auto restarts = nodes.job.events("restart");
  REQUIRE(restarts.size() == 2);
  CHECK(restarts[0]["restarts"] == 1);
  CHECK(restarts[1]["restarts"] == 1);  // planned: it costs nothing
  CHECK(restarts[1]["reason"] == "planned, and not counted: from 1 node to 2");
  CHECK_FALSE(fs::exists(nodes.job.run_dir() / "incidents/incident-1.json"));
}

TEST_CASE("nodes: an elastic job begins with fewer nodes when the others stay away", "[launch]") {
  LaunchedNodes nodes(2, "1:2");
  nodes.job.settings.insert(nodes.job.settings.end(), {"resilience.elastic=true", "launch.join_timeout_s=1"});
  CHECK(nodes.wait(nodes.start(0)) == 0);
  nodes.job.check_history(20);
}

TEST_CASE("nodes: a node that is to blame is refused with 64; a spare takes its place, or the job ends",
          "[launch]") {
  LaunchedNodes nodes(2, "2:3");
  nodes.job.script = "step_ms=20 3:8:0:segv";
  nodes.job.settings.insert(nodes.job.settings.end(),
                            {"train.duration=60 steps",
                             "resilience.on_failure.crash=restart_excluding_node",
                             "launch.join_timeout_s=3"});
  SECTION("a spare") {
    const int first = nodes.start(0);
    const int second = nodes.start(1);
    nodes.wait_for_step(2);
    const int spare = nodes.start(-1);
    CHECK(nodes.wait(second) == 64);
    CHECK(nodes.wait(first) == 0);
    CHECK(nodes.wait(spare) == 0);
    INFO(nodes.consoles());
    nodes.job.check_history(60);
    CHECK(nodes.job.incident(0)["action"].get<std::string>().find(", without node 1") != std::string::npos);
  }
  SECTION("none") {
    const int first = nodes.start(0);
    const int second = nodes.start(1);
    CHECK(nodes.wait(second) == 64);
    CHECK(nodes.wait(first) == 64);
    INFO(nodes.consoles());
    CHECK(nodes.job.events("run_finished").size() == 1);
  }
}

TEST_CASE("nodes: an agent that is silent for a while costs nothing; for too long, its node", "[launch]") {
  LaunchedNodes nodes(2);
  nodes.job.script = "step_ms=20";
  const int ms = GENERATE(1'000, 8'000);
  nodes.job.settings.insert(
      nodes.job.settings.end(),
      {"train.duration=60 steps",
       fmt::format("faults=[{{kind: drop_heartbeats, rank: 1, step: 6, ms: {}}}]", ms)});
  const int first = nodes.start(0);
  const int second = nodes.start(1);
  CHECK(nodes.wait(first) == 0);
  CHECK(nodes.wait(second) == 0);
  INFO(nodes.consoles());
  nodes.job.check_history(60);
  CHECK(nodes.console(second).find("fault: nothing is sent") != std::string::npos);
  CHECK(nodes.job.events("restart").size() == (ms > 4'000 ? 1 : 0));
}
