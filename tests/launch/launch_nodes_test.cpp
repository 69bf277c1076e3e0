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
