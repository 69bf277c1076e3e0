#include "tests/launch/launched_job.hpp"

// Launches that must not start, and checkpoints that must not be used.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

void flip_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(byte);
}

fs::path weights_of(const LaunchedJob& job, int step) {
  const fs::path directory = job.run_dir() / "checkpoints" / fmt::format("step-{:08}", step);
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().extension() == ".safetensors") return entry.path();
  FAIL("no weights in " << directory);
  return {};
}

// A run that was stopped after a step between 11 and 19, so that steps 5 and 10 are committed too.
void stop_in_the_middle(LaunchedJob& job) {
  job.script = "step_ms=10 1:12:0:exit73";
  REQUIRE(job.run() == 73);
  job.script = "";
  REQUIRE(job.has_checkpoint(10));
}

}  // namespace

TEST_CASE("launch: a run directory that is held refuses a second launch with 69 and names the holder",
          "[launch]") {
  LaunchedJob first;
  first.script = "step_ms=20";
  first.settings = {"train.duration=100000 steps"};
  first.start();
  first.wait_for_step(2);
  LaunchedJob second;
  const std::string source = slurp(first.run_dir() / "spec.source.yaml");
  for (const char* command : {"launch", "resume"}) {
    second.start_command({command,
                          first.directory() + "/job.yaml",
                          "--engine",
                          LLMTRAIN_FAKE_ENGINE,
                          "--set",
                          "run.dir=" + first.run_dir().string()});
    CHECK(second.wait() == 69);
    CHECK(second.console().find(fmt::format("pid {} on ", first.pid())) != std::string::npos);
  }
  CHECK(slurp(first.run_dir() / "spec.source.yaml") == source);
  first.signal(SIGTERM);
  CHECK(first.wait() == 75);
}

TEST_CASE("launch: two jobs run side by side on one host", "[launch]") {
  LaunchedJob first;
  LaunchedJob second;
  first.script = second.script = "step_ms=5";
  first.start();
  second.start();
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
  first.check_history(20);
  second.check_history(20);
}

TEST_CASE("launch: `checkpoint.resume: never` refuses a used directory with 2", "[launch]") {
  LaunchedJob job;
  job.settings = {"checkpoint.resume=never"};
  REQUIRE(job.run() == 0);
  const auto metrics = slurp(job.run_dir() / "metrics.jsonl");
  CHECK(job.run() == 2);
  CHECK(job.console().find("never") != std::string::npos);
  CHECK(slurp(job.run_dir() / "metrics.jsonl") == metrics);
}

TEST_CASE("resume: without a usable checkpoint it ends with 65", "[launch]") {
  LaunchedJob job;
  SECTION("nothing there at all") {
    job.start_command({"resume",
                       job.directory() + "/job.yaml",
                       "--engine",
                       LLMTRAIN_FAKE_ENGINE,
                       "--set",
                       "run.dir=" + job.run_dir().string()});
    CHECK(job.wait() == 65);
    CHECK_FALSE(fs::exists(job.run_dir()));
  }
  SECTION("a run that never saved") {
    job.script = "0:2:*:exit73";
    REQUIRE(job.run() == 73);
    CHECK(job.resume() == 65);
    CHECK(job.console().find("no checkpoint to resume from") != std::string::npos);
  }
  SECTION("all are damaged: launch does not start over either") {
    job.script = "0:7:*:exit73";
    REQUIRE(job.run() == 73);
    job.script = "";
    flip_byte(weights_of(job, 5));
    CHECK(job.resume() == 65);
    CHECK(job.run() == 65);
    CHECK(job.console().find("step-00000005") != std::string::npos);
    CHECK(job.has_checkpoint(5));
  }
}

TEST_CASE("resume: a damaged checkpoint is passed over, and that is said", "[launch]") {
  LaunchedJob job;
  stop_in_the_middle(job);
  flip_byte(weights_of(job, 10));
  CHECK(job.resume() == 0);
  job.check_history(20);
  CHECK(job.events("checkpoint_loaded").back()["step"] == 5);
  const auto rejected = job.events("checkpoint_rejected");
  REQUIRE(rejected.size() == 1);
  CHECK(rejected[0]["path"].get<std::string>().find("step-00000010") != std::string::npos);
  CHECK(job.console().find("step-00000010") != std::string::npos);
}

TEST_CASE("resume: seed and batch of a run are kept, other settings change", "[launch]") {
  LaunchedJob job;
  stop_in_the_middle(job);
  for (const char* setting : {"run.seed=7", "batch.global_batch_size=4"}) {
    CHECK(job.resume({"--set", setting}) == 2);
    job.start({"--set", setting});
    CHECK(job.wait() == 2);
  }
  CHECK(job.resume({"--set", "parallelism.dp=1"}) == 0);  // another layout of the same batch
  job.check_history(20);
  CHECK(fs::exists(job.run_dir() / "logs/1/node0/rank0.err"));
  CHECK_FALSE(fs::exists(job.run_dir() / "logs/1/node0/rank1.err"));
}

TEST_CASE("launch: a log that cannot be written is said at the start, with its path", "[launch]") {
  LaunchedJob job;
  fs::create_directories(job.run_dir());
  std::ofstream(job.run_dir() / "logs") << "a file";
  CHECK(job.run() == 72);
  CHECK(job.console().find("logs") != std::string::npos);
  CHECK(slurp(job.run_dir() / "logs") == "a file");
}

TEST_CASE("launch: an engine that is missing or foreign is named", "[launch]") {
  LaunchedJob job;
  job.start_command({"launch",
                     job.directory() + "/job.yaml",
                     "--engine",
                     "/nowhere/engine.so",
                     "--set",
                     "run.dir=" + job.run_dir().string()});
  CHECK(job.wait() == 2);
  CHECK(job.console().find("/nowhere/engine.so") != std::string::npos);
  CHECK_FALSE(fs::exists(job.run_dir()));
  job.start_command({"launch",
                     job.directory() + "/job.yaml",
                     "--engine",
                     job.directory() + "/job.yaml",
                     "--set",
                     "run.dir=" + job.run_dir().string()});
  CHECK(job.wait() == 64);
  CHECK(job.console().find("cannot open the engine") != std::string::npos);
}

TEST_CASE("launch: a job that is wrong ends with 2 and leaves no trace", "[launch]") {
  LaunchedJob job;
  CHECK(job.run({"--set", "parallelism.tp=3"}) == 2);
  CHECK(job.run({"--set", "train.duratoin=5"}) == 2);
  CHECK(job.run({"--set", "data.train=[{path: /nowhere/tokens}]"}) == 2);
  CHECK(job.console().find("/nowhere/tokens") != std::string::npos);
  CHECK_FALSE(fs::exists(job.run_dir()));
}
