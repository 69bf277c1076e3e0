#include <fstream>

#include <sys/stat.h>

#include "tests/launch/launched_job.hpp"

// What becomes of the workers' output: files, their rotation, the console, and what a failure shows of it.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("output: warnings of every rank are on the console, the rest where it was asked for", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=5 0:3:0:words 1:3:0:words";
  SECTION("nobody asked") {
    CHECK(job.run() == 0);
    const std::string console = job.console();
    CHECK(has(console, "rank 0: warning: something is odd"));
    CHECK(has(console, "rank 1: warning: something is odd"));
    CHECK_FALSE(has(console, "an ordinary line"));
    CHECK_FALSE(has(console, "a line on stdout"));
  }
  SECTION("both streams of all") {
    CHECK(job.run({"--tee", "3"}) == 0);
    const std::string console = job.console();
    CHECK(has(console, "rank 1: an ordinary line"));
    CHECK(has(console, "rank 0: a line on stdout"));
  }
  SECTION("the job asks for the first rank") {
    job.settings = {"launch.log.tee=first"};
    CHECK(job.run() == 0);
    CHECK(has(job.console(), "rank 0: a line on stdout"));
    CHECK_FALSE(has(job.console(), "rank 1: a line on stdout"));
  }
  SECTION("a flag wins over the job") {
    job.settings = {"launch.log.tee=all"};
    CHECK(job.run({"--tee", "1:1"}) == 0);
    CHECK_FALSE(has(job.console(), "rank 0: a line on stdout"));
    CHECK(has(job.console(), "rank 1: a line on stdout"));
    CHECK_FALSE(has(job.console(), "an ordinary line"));
  }
  CHECK(slurp(job.run_dir() / "logs/0/node0/rank1.err") == "warning: something is odd\nan ordinary line\n");
  CHECK(slurp(job.run_dir() / "logs/0/node0/rank1.out") == "a line on stdout\n");
  CHECK_FALSE(has(slurp(job.run_dir() / "events.jsonl"), "something is odd"));
}

TEST_CASE("output: a flood fills neither disk nor console, and the job goes on", "[launch]") {
  LaunchedJob job;
  job.script = "0:3:0:flood";
  CHECK(job.run({"--tee", "3"}) == 0);
  job.check_history(20);
  const std::string log = slurp(job.run_dir() / "logs/0/node0/rank0.err");
  CHECK(log.size() > (8 << 20));
  CHECK(log.size() < (16 << 20));  // of twenty million bytes
  CHECK(has(log, "bytes of output were dropped"));
  CHECK(job.console().size() < 100'000);
  CHECK(has(job.console(), "more lines of output are in " + (job.run_dir() / "logs/0/node0").string()));
}

TEST_CASE("output: files are rotated, the first and the newest stay, and the last words are shown",
          "[launch]") {
  LaunchedJob job;
  job.settings = {"launch.log.max_bytes=8192", "launch.log.keep=2", "resilience.max_restarts=0"};
  job.script = "1:2:0:lines 1:3:0:throw";
  CHECK(job.run() == 66);
  const fs::path logs = job.run_dir() / "logs/0/node0";
  CHECK(slurp(logs / "rank1.err").starts_with("rank 1 line 000"));
  std::vector<std::string> pieces;
  for (const auto& file : fs::directory_iterator(logs))
    if (file.path().filename().string().starts_with("rank1.err")) pieces.push_back(file.path().filename());
  CHECK(pieces.size() == 3);
  for (const std::string& piece : pieces) CHECK(fs::file_size(logs / piece) <= 8192);
  CHECK(has(job.console(), "rank 1 line 199"));
  CHECK(has(job.console(), "thrown on purpose"));
}

TEST_CASE("output: --log-dir takes the logs, and the last words are shown all the same", "[launch]") {
  LaunchedJob job;
  job.settings = {"resilience.max_restarts=0"};
  job.script = "1:3:0:throw";
  const fs::path elsewhere = fs::path(job.directory()) / "else/where";
  CHECK(job.run({"--log-dir", elsewhere.string()}) == 66);
  CHECK(has(slurp(elsewhere / "0/node0/rank1.err"), "thrown on purpose"));
  CHECK(fs::exists(elsewhere / "0/node0/rank0.out"));
  CHECK_FALSE(fs::exists(job.run_dir() / "logs"));
  CHECK(has(job.console(), "thrown on purpose"));
}

TEST_CASE("output: a disk of logs that hangs holds up neither workers nor their agent", "[launch]") {
  LaunchedJob job;
  job.script = "0:3:0:lines";
  const fs::path logs = fs::path(job.directory()) / "elsewhere";
  fs::create_directories(logs / "0/node0");
  REQUIRE(mkfifo((logs / "0/node0/rank0.err").c_str(), 0600) == 0);  // nobody reads: opening it never ends
  CHECK(job.run({"--log-dir", logs.string()}) == 0);
  job.check_history(20);
  CHECK(has(job.console(), "200 lines dropped: the log's disk is slow"));
}

TEST_CASE("output: a place where no logs can be made is refused before anything runs", "[launch]") {
  LaunchedJob job;
  std::ofstream(fs::path(job.directory()) / "file") << "in the way";
  CHECK(job.run({"--log-dir", (fs::path(job.directory()) / "file/logs").string()}) == 72);
  CHECK(has(job.console(), "file is in the way"));
}

TEST_CASE("output: a hung worker's stack comes through the pipe, however its log is rotated", "[launch]") {
  LaunchedJob job;
  job.settings = {"parallelism.dp=3",
                  "resilience.collective_timeout_s=0.5",
                  "resilience.max_restarts=0",
                  "launch.log.max_bytes=4096"};
  job.script = "2:4:0:hang";
  CHECK(job.run() == 66);
  const Json incident = job.incident(0);
  INFO(incident.dump());
  CHECK(incident["first_cause"] == Json({2}));
  REQUIRE(incident["black_boxes"].size() == 3);
  CHECK(has(incident["black_boxes"][2]["stack"].dump(), "sleep"));  // where it stands, by name
  CHECK_FALSE(has(job.console(), "llmtrain-stack"));
}

TEST_CASE("output: workers of an agent that is stopped wait, and nothing is lost", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=10 0:10:0:lines 0:11:0:lines 0:12:0:lines";
  job.start();
  job.wait_for_step(3);
  job.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  job.signal(SIGCONT);
  CHECK(job.wait() == 0);
  job.check_history(20);
  const std::string log = slurp(job.run_dir() / "logs/0/node0/rank0.err");
  CHECK(std::count(log.begin(), log.end(), '\n') == 600);
}
