#include "tests/launch/launched_job.hpp"

// What can be seen of a job while it lives (control/status.json), and which signals it takes.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

Json status_of(const LaunchedJob& job) {
  return Json::parse(slurp(job.run_dir() / "control/status.json"), nullptr, false);
}

std::string said_by(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string text;
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
  pclose(pipe);
  return text;
}

}  // namespace

TEST_CASE("live: the status file follows the run and goes with it", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20";
  job.settings = {"train.duration=100000 steps"};
  job.start();
  until([&] { return status_of(job).is_object() && status_of(job).value("state", "") == "running"; });
  Json status = status_of(job);
  INFO(status.dump());
  CHECK(status["total_steps"] == 100000);
  REQUIRE(status["nodes"].size() == 1);
  CHECK(status["nodes"][0]["control"] == "leader");
  CHECK(status["nodes"][0]["pid"] == job.pid());
  REQUIRE(status["nodes"][0]["ranks"].size() == 2);
  CHECK(status["nodes"][0]["ranks"][1]["pid"] == job.worker(1));
  const auto counter = status["counter"].get<int>();
  until([&] { return status_of(job).is_object() && status_of(job)["counter"].get<int>() > counter; });
  const std::string text =
      said_by(fmt::format("'{}' status '{}'", LLMTRAIN_EXECUTABLE, job.run_dir().string()));
  INFO(text);
  CHECK(text.find("running") != std::string::npos);
  CHECK(text.find(fmt::format("pid {}", job.worker(0))) != std::string::npos);
  job.signal(SIGTERM);
  CHECK(job.wait() == 75);
  CHECK_FALSE(fs::exists(job.run_dir() / "control/status.json"));
}

TEST_CASE("live: status says where the logs are that --log-dir took elsewhere", "[launch]") {
  LaunchedJob job;
  const fs::path elsewhere = fs::path(job.directory()) / "elsewhere";
  CHECK(job.run({"--log-dir", elsewhere.string()}) == 0);
  const std::string text =
      said_by(fmt::format("'{}' status '{}'", LLMTRAIN_EXECUTABLE, job.run_dir().string()));
  CHECK(text.find((elsewhere / "0").string() + "\n") != std::string::npos);
  CHECK(fs::exists(elsewhere / "0/node0/rank1.err"));
}

TEST_CASE("live: a status file that cannot be written costs nothing", "[launch]") {
  LaunchedJob job;
  fs::create_directories(job.run_dir() / "control/status.json.tmp/in the way");
  CHECK(job.run() == 0);
  job.check_history(20);
  CHECK_FALSE(fs::exists(job.run_dir() / "control/status.json"));
}

TEST_CASE("live: launch.stop_signals says which signals stop in order", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20";
  job.settings = {
      "train.duration=100000 steps", "launch.stop_signals=[HUP, USR2]", "launch.slurm.signal=HUP@60"};
  job.start();
  job.wait_for_step(3);
  SECTION("those in the list") {
    const int signal = GENERATE(SIGHUP, SIGUSR2);
    job.signal(signal);
    CHECK(job.wait() == 75);
    CHECK(job.has_checkpoint(static_cast<int>(job.last_step())));
  }
  SECTION("USR1 outside of it is no harm") {
    job.signal(SIGUSR1);
    job.wait_for_step(job.last_step() + 10);
    job.signal(SIGHUP);
    CHECK(job.wait() == 75);
  }
  SECTION("TERM outside of it ends the job at once, with its workers") {
    const auto workers = job.workers();
    REQUIRE(workers.size() == 2);
    job.signal(SIGTERM);
    CHECK(job.wait() == 128 + SIGTERM);
    for (const pid_t worker : workers) until([&] { return !alive(worker); });
  }
}
