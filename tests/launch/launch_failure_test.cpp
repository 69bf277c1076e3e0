#include "llmtrain/launch/launch_job.hpp"

#include "tests/launch/launched_job.hpp"

// Workers that die, hang or refuse: restart in place, or the right end.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr int kSegmentationFault = 139;  // the handler of crashes ends by the signal, under sanitizers too

}  // namespace

TEST_CASE("launch: a killed worker restarts the job from the newest checkpoint", "[launch]") {
  const std::string how = GENERATE(as<std::string>{}, "kill", "segv", "throw");
  LaunchedJob job;
  job.script = "1:8:0:" + how;
  REQUIRE(job.run() == 0);
  job.check_history(20);
  CHECK(job.metrics().size() == 22);  // 6 and 7 were replayed

  const auto exited = job.events("worker_exited");
  REQUIRE_FALSE(exited.empty());
  CHECK(exited[0]["rank"] == 1);
  CHECK(exited[0]["step"] == 7);
  CHECK(exited[0]["code"] == (how == "kill" ? 137 : how == "segv" ? kSegmentationFault : 70));
  const auto restarts = job.events("restart");
  REQUIRE(restarts.size() == 1);
  CHECK(restarts[0]["restarts"] == 1);
  CHECK(job.events("checkpoint_loaded").size() == 1);

  const Json incident = job.incident(0);
  CHECK(incident["first_cause"] == Json({1}));
  CHECK(incident["incarnation"] == 0);
  CHECK(incident["resumed_step"] == 5);
  CHECK(incident["lost_steps"] == 2);
  CHECK(incident["first_step_ms"].is_number());
  CHECK(incident["action"] == "restart 1 of 10");
  CHECK(fs::exists(job.run_dir() / "logs/1/node0/rank1.err"));
}

TEST_CASE("launch: before the first save a restart begins at step 0", "[launch]") {
  LaunchedJob job;
  job.script = "0:1:0:kill 1:3:1:kill";
  CHECK(job.run() == 0);
  job.check_history(20);
  CHECK(job.events("checkpoint_loaded").empty());
  CHECK(job.events("restart").size() == 2);
}

TEST_CASE("launch: every rank can be killed from outside, again and again", "[launch]") {
  LaunchedJob job;
  job.script = "step_ms=5";
  job.settings = {"parallelism.dp=3", "train.duration=60 steps", "resilience.max_restarts=100"};
  job.start();
  for (int round = 0; round < 6; ++round) {
    job.wait_for_step(8 * (round + 1));
    pid_t victim = -1;
    until([&] { return (victim = job.worker(round % 3)) > 0; });
    kill(victim, SIGKILL);
  }
  CHECK(job.wait() == 0);
  job.check_history(60);
  CHECK(job.events("restart").size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(job.incident(i)["first_cause"] == Json({i % 3}));
}

TEST_CASE("launch: all workers killed at once is one incident and one restart", "[launch]") {
  LaunchedJob job;
  job.script = "0:7:0:kill 1:7:0:kill";
  CHECK(job.run() == 0);
  CHECK(job.events("restart").size() == 1);
  CHECK_FALSE(fs::exists(job.run_dir() / "incidents/incident-1.json"));
}

TEST_CASE("launch: data, spec and storage errors end the job with their code, at once, said once",
          "[launch]") {
  const int code = GENERATE(2, 64, 65, 71, 72, 73, 77);
  LaunchedJob job;
  job.script = fmt::format("1:1:*:exit{}", code);
  CHECK(job.run() == code);
  CHECK(job.events("restart").empty());
  CHECK_FALSE(fs::exists(job.run_dir() / "logs/1"));
  const std::string console = job.console();
  const auto first = console.find("leaving on purpose");
  REQUIRE(first != std::string::npos);
  CHECK(console.find("leaving on purpose", first + 1) == std::string::npos);
  CHECK(job.incident(0)["action"] == "end the job");
}

TEST_CASE("launch: the restart budget ends the job with 66", "[launch]") {
  LaunchedJob job;
  job.settings = {"resilience.max_restarts=2", "checkpoint.interval=1 steps"};
  job.script = "1:3:0:kill 1:5:1:kill 1:7:2:kill";
  CHECK(job.run() == 66);
  CHECK(job.events("restart").size() == 2);
  CHECK(job.console().find("budget of 2 restarts") != std::string::npos);
  CHECK(job.run() == 0);  // a new launch has a new budget, and incarnation 3 no faults
}

TEST_CASE("launch: a crash loop ends the job with 67", "[launch]") {
  LaunchedJob job;
  job.settings = {"resilience.no_progress_limit=2"};
  job.script = "1:8:*:throw";
  CHECK(job.run() == 67);
  CHECK(job.events("restart").size() == 2);
  CHECK(job.console().find("thrown on purpose") != std::string::npos);
}

TEST_CASE("launch: the job's table says what follows a failure", "[launch]") {
  LaunchedJob job;
  SECTION("a crash may end it") {
    job.settings = {"resilience.on_failure.crash=stop"};
    job.script = "1:8:0:throw";
    CHECK(job.run() == 66);
    CHECK(job.incident(0)["action"] == "end the job");
    CHECK(job.console().find("resilience.on_failure.crash is stop") != std::string::npos);
  }
  SECTION("so may a hang, while crashes do not") {
    job.settings = {"resilience.on_failure.hang=stop", "resilience.collective_timeout_s=0.5"};
    job.script = "1:4:0:throw 1:8:1:hang";
    CHECK(job.run() == 68);
    CHECK(job.events("restart").size() == 1);
  }
  SECTION("a data error may be tried again") {
    job.settings = {"resilience.on_failure.data=restart"};
    job.script = "1:8:0:exit73";
    CHECK(job.run() == 0);
    job.check_history(20);
  }
  SECTION("restarts that are long ago are forgotten") {
    job.settings = {
        "resilience.max_restarts=1", "resilience.restart_window_s=0.5", "checkpoint.interval=1 steps"};
    job.script = "step_ms=100 1:8:0:kill 1:16:1:kill";
    CHECK(job.run() == 0);
    CHECK(job.events("restart").size() == 2);
  }
}

TEST_CASE("launch: a hung rank is named, although the other ones left", "[launch]") {
  const std::string how = GENERATE(as<std::string>{}, "hang", "stop");
  LaunchedJob job;
  job.settings = {"parallelism.dp=3", "resilience.collective_timeout_s=0.5"};
  SECTION("and the job goes on") {
    job.script = "2:4:0:" + how;
    CHECK(job.run() == 0);
    job.check_history(20);
    CHECK(job.incident(0)["first_cause"] == Json({2}));
    CHECK(job.events("restart").size() == 1);
  }
  SECTION("and when it happens again and again, the job ends with 68") {
    job.settings.push_back("resilience.no_progress_limit=1");
    job.script = "2:4:*:" + how;
    CHECK(job.run() == 68);
  }
}

TEST_CASE("launch: when all ranks stand still, the watch on their heartbeats ends it", "[launch]") {
  class Collect final : public EventSink {
   public:
    explicit Collect(std::vector<Event>& events) : events_(events) {}
    void on(const Event& event) override { events_.push_back(event); }

   private:
    std::vector<Event>& events_;
  };
  LaunchedJob job;
  JobSource source;
  source.files = {job.directory() + "/job.yaml"};
  source.overrides = {"run.dir=" + job.run_dir().string(), "resilience.collective_timeout_s=0.5"};
  LaunchRequest request;
  request.job = load_job(source).value();
  request.engine_path = LLMTRAIN_FAKE_ENGINE;
  request.executable = LLMTRAIN_EXECUTABLE;
  request.environment = {"PATH=/usr/bin:/bin", "FAKE_ENGINE=0:4:0:hang 1:4:0:hang"};
  request.shortest_stall = std::chrono::milliseconds{500};
  std::vector<Event> events;
  const auto files = make_posix_filesystem();
  const auto outcome =
      launch_job(request, *files, [&events](const RunDir&) -> Result<std::unique_ptr<EventSink>> {
        return std::unique_ptr<EventSink>(std::make_unique<Collect>(events));
      });
  REQUIRE(outcome.ok());
  CHECK(outcome->code == ExitCode::kDone);
  CHECK(job.incident(0)["detected_by"] == "progress watch");
  CHECK(std::count_if(events.begin(), events.end(), [](const Event& event) {
          return std::holds_alternative<Restarted>(event.body);
        }) == 1);
}

TEST_CASE("launch: a rank that lost its peers is never called the cause", "[launch]") {
  LaunchedJob job;
  job.settings = {"parallelism.dp=4"};
  job.script = "0:6:0:leave 1:6:0:leave 3:6:0:leave 2:6:0:throw";
  CHECK(job.run() == 0);
  CHECK(job.incident(0)["first_cause"] == Json({2}));
}

TEST_CASE("launch: ranks that all talk at once keep whole lines, a file each, and the cause is shown",
          "[launch]") {
  LaunchedJob job;
  job.settings = {"parallelism.dp=4", "resilience.max_restarts=0"};
  job.script = "0:2:0:lines 1:2:0:lines 2:2:0:lines 3:2:0:lines 2:3:0:throw";
  CHECK(job.run() == 66);
  for (int rank = 0; rank < 4; ++rank) {
    std::istringstream log(slurp(job.run_dir() / fmt::format("logs/0/node0/rank{}.err", rank)));
    int number = 0;
    for (std::string line; std::getline(log, line);) {
      if (line == "thrown on purpose") continue;
      CHECK(line ==
            fmt::format(
                "rank {} line {:03} {}", rank, number++, std::string(280, static_cast<char>('a' + rank))));
    }
    CHECK(number == 200);
  }
  const std::string console = job.console();
  CHECK(console.find("thrown on purpose") != std::string::npos);
  CHECK(console.find("rank 2 line 199") != std::string::npos);
  CHECK(console.find("rank 1 line") == std::string::npos);
}

TEST_CASE("launch: a message that is not understood is reported once and harms nothing", "[launch]") {
  LaunchedJob job;
  job.script = "0:2:0:garbage 0:3:0:garbage";
  CHECK(job.run() == 0);
  job.check_history(20);
  const std::string console = job.console();
  const auto first = console.find("not understood");
  REQUIRE(first != std::string::npos);
  CHECK(console.find("not understood", first + 1) == std::string::npos);
}
