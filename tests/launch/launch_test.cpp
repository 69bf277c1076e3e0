#include "tests/launch/launched_job.hpp"

// The life of a job: run, finish, continue, stop. Failures are in launch_failure_test.cpp, refusals in
// launch_refusal_test.cpp.

using namespace llmtrain;
using namespace llmtrain::test;

TEST_CASE("launch: a run ends with 0, and the run directory is what the contract says", "[launch]") {
  LaunchedJob job;
  REQUIRE(job.run() == 0);
  job.check_history(20);
  for (const char* path : {"spec.source.yaml",
                           "spec.yaml",
                           "spec-0.yaml",
                           "logs/0/node0/rank0.out",
                           "logs/0/node0/rank1.err",
                           "checkpoints/step-00000020/manifest.json"})
    CHECK(fs::exists(job.run_dir() / path));
  CHECK(slurp(job.run_dir() / "spec.yaml") == slurp(job.run_dir() / "spec-0.yaml"));
  CHECK_FALSE(fs::exists(job.run_dir() / "incidents"));
  const auto finished = job.events("run_finished");
  REQUIRE(finished.size() == 1);
  CHECK(finished[0]["code"] == 0);

  SECTION("again: it says that it is finished and starts nothing") {
    CHECK(job.run() == 0);
    CHECK(job.console().find("is finished: step 20 of 20") != std::string::npos);
    CHECK(job.resume() == 0);
    CHECK_FALSE(fs::exists(job.run_dir() / "spec-1.yaml"));
    CHECK(job.metrics().size() == 20);
  }
  SECTION("a longer duration goes on, by launch and by resume") {
    CHECK(job.run({"--set", "train.duration=25 steps"}) == 0);
    job.check_history(25);
    CHECK(job.metrics().size() == 25);
    CHECK(job.resume({"--set", "train.duration=28 steps"}) == 0);
    job.check_history(28);
    CHECK(job.events("checkpoint_loaded").back()["step"] == 25);
    CHECK(fs::exists(job.run_dir() / "logs/2/node0/rank0.out"));
    CHECK(slurp(job.run_dir() / "spec.source.yaml").find("28") != std::string::npos);
  }
}

TEST_CASE("launch: the agent's children are the workers, by name, and it stays small and without libtorch",
          "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20";
  job.start();
  job.wait_for_step(3);
  const auto workers = job.workers();
  CHECK(workers.size() == 2);
  CHECK(job.worker(0) > 0);
  CHECK(job.worker(1) > 0);
  for (const pid_t worker : workers) CHECK(getpgid(worker) == worker);
  CHECK(slurp(fmt::format("/proc/{}/cmdline", job.worker(1))).starts_with("llmtrain-r1"));

  const std::string status = slurp(fmt::format("/proc/{}/status", job.pid()));
  const std::string maps = slurp(fmt::format("/proc/{}/maps", job.pid()));
  CHECK(maps.find("libtorch") == std::string::npos);
  CHECK(maps.find("fake_engine") == std::string::npos);
#ifndef LLMTRAIN_SANITIZED
  const auto rss = status.find("VmRSS:");
  REQUIRE(rss != std::string::npos);
  CHECK(std::stol(status.substr(rss + 6)) < 20 * 1024);
#endif
  CHECK(job.wait() == 0);
  for (const pid_t worker : workers) CHECK_FALSE(alive(worker));
}

TEST_CASE("launch: TERM, INT and USR1 stop at a step, save, end with 75, and resume goes on", "[launch]") {
  const int signal = GENERATE(SIGTERM, SIGINT, SIGUSR1);
  LaunchedJob job;
  job.script = "step_ms=20";
  job.start();
  job.wait_for_step(3);
  job.signal(signal);
  REQUIRE(job.wait() == 75);
  const std::int64_t stopped = job.last_step();
  CHECK(stopped < 20);
  CHECK(job.has_checkpoint(static_cast<int>(stopped)));
  const auto asked = job.events("stop_requested");
  REQUIRE(asked.size() == 1);
  CHECK(asked[0]["signal"] == std::string("SIG") + sigabbrev_np(signal));
  CHECK(job.events("run_finished").back()["code"] == 75);

  job.script = "";
  CHECK(job.resume() == 0);
  CHECK(job.metrics().size() == 20);  // nothing was replayed
  CHECK(job.events("checkpoint_loaded").back()["step"] == stopped);
}

TEST_CASE("launch: TERM to one worker only stops all ranks after the same step", "[launch]") {
  LaunchedJob job;
  job.settings = {"parallelism.dp=4"};
  job.script = "step_ms=20";
  job.start();
  job.wait_for_step(3);
  kill(job.worker(1), SIGTERM);
  CHECK(job.wait() == 75);
  CHECK(job.has_checkpoint(static_cast<int>(job.last_step())));
  CHECK(job.events("worker_exited").empty());
  job.script = "";
  CHECK(job.resume() == 0);
  CHECK(job.metrics().size() == 20);
}

TEST_CASE("launch: a scheduler that signals every process of the job gets one orderly stop", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20";
  job.start();
  job.wait_for_step(2);
  for (const pid_t worker : job.workers()) kill(worker, SIGUSR1);
  job.signal(SIGUSR1);
  CHECK(job.wait() == 75);
  CHECK(job.has_checkpoint(static_cast<int>(job.last_step())));
}

TEST_CASE("launch: a second signal, or the end of the grace time, kills: 76 without a checkpoint",
          "[launch]") {
  const bool second = GENERATE(true, false);
  LaunchedJob job;
  job.script = "step_ms=20 ignore_stop";
  job.settings = {"train.duration=100000 steps", "checkpoint.interval=0 steps"};
  if (!second) job.settings.push_back("resilience.stop_grace_s=0.3");
  job.start();
  job.wait_for_step(3);
  const auto workers = job.workers();
  job.signal(SIGTERM);
  if (second) {
    until([&] { return !job.events("stop_requested").empty(); });
    job.signal(SIGTERM);
  }
  CHECK(job.wait() == 76);
  for (const pid_t worker : workers) CHECK_FALSE(alive(worker));
}

TEST_CASE("launch: a hurried stop after a committed save is 75", "[launch]") {
  LaunchedJob job;
  // Both ranks stand still before step 6, right after the save of step 5.
  job.script = "ignore_stop 0:6:*:hang 1:6:*:hang";
  job.start();
  job.wait_for_step(5);
  until([&] { return job.has_checkpoint(5); });
  until([&] { return !job.events("checkpoint_saved").empty(); });
  job.signal(SIGTERM);
  until([&] { return !job.events("stop_requested").empty(); });
  job.signal(SIGTERM);
  CHECK(job.wait() == 75);
}

TEST_CASE("launch: no child of a worker is left after a stop, in its group or out of it", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20 1:2:0:child 0:2:0:daemon";
  job.start();
  job.wait_for_step(3);
  std::istringstream pids(slurp(job.run_dir() / "child"));
  std::vector<pid_t> grandchildren;
  for (pid_t pid; pids >> pid;) grandchildren.push_back(pid);
  REQUIRE(grandchildren.size() == 2);
  job.signal(GENERATE(SIGTERM, SIGINT));
  CHECK(job.wait() == 75);
  for (const pid_t pid : grandchildren) CHECK_FALSE(alive(pid));
}

TEST_CASE("launch: killed with SIGKILL, the agent leaves no worker, no lock and no shared memory",
          "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=20";
  job.settings = {"train.duration=100000 steps"};
  job.start();
  job.wait_for_step(6);
  const auto workers = job.workers();
  job.signal(SIGKILL);
  CHECK(job.wait() == 137);
  until([&] { return std::none_of(workers.begin(), workers.end(), alive); });
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    CHECK(entry.path().filename().string().find("llmtrain") == std::string::npos);
  job.settings = {"train.duration=20 steps"};
  job.script = "";
  CHECK(job.resume({"--set", "train.duration=" + std::to_string(job.last_step() + 5) + " steps"}) == 0);
}
