#include "llmtrain/launch/run_files.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/launch/run_lock.hpp"
#include "llmtrain/logs/log_tail.hpp"
#include "llmtrain/monitor/events.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

void touch(const fs::path& path, const std::string& text = "x") {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("run lock: a second holder is refused with the name of the first, a dead one never blocks",
          "[launch]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "lock";
  touch(path, "pid 1 on elsewhere, long dead, and a good deal longer than what is written over it now\n");
  {
    const auto first = RunLock::acquire(path);
    REQUIRE(first.ok());
    const auto second = RunLock::acquire(path);
    REQUIRE_FALSE(second.ok());
    CHECK(exit_code_for(second.error().code) == ExitCode::kHeld);
    CHECK(second.error().message.find("pid " + std::to_string(getpid()) + " on ") != std::string::npos);
    CHECK(second.error().message.find("started ") != std::string::npos);
    CHECK(second.error().message.find("elsewhere") == std::string::npos);
  }
  CHECK(RunLock::acquire(path).ok());

  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t holder = fork();
  REQUIRE(holder >= 0);
  if (holder == 0) {
    const auto lock = RunLock::acquire(path);
    [[maybe_unused]] const ssize_t n = write(ready[1], "x", 1);
    pause();
    _exit(1);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK_FALSE(RunLock::acquire(path).ok());
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  CHECK(RunLock::acquire(path).ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("run files: used or fresh, and the next numbers", "[launch]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory / "a run");
  CHECK(*is_used(*files, run) == false);
  CHECK(*next_incarnation(*files, run) == 0);
  CHECK(*next_incident(*files, run) == 0);
  REQUIRE(make_run_directory(*files, run).ok());
  REQUIRE(make_run_directory(*files, run).ok());
  CHECK(*is_used(*files, run) == false);

  touch(run.resolved_spec(2));
  touch(run.root() / "spec-x.yaml");
  touch(run.root() / "spec-.yaml");
  touch(run.root() / "spec-99999999999999.yaml");
  CHECK(*next_incarnation(*files, run) == 3);
  fs::create_directories(run.logs(11, 0));
  CHECK(*next_incarnation(*files, run) == 12);
  touch(run.incident(4));
  CHECK(*next_incident(*files, run) == 5);

  CHECK(*is_used(*files, run) == false);
  fs::create_directories(run.checkpoints());
  CHECK(*is_used(*files, run) == false);
  fs::create_directories(run.checkpoint(5));
  CHECK(*is_used(*files, run) == true);
}

TEST_CASE("run files: specs are replaced whole, one is kept for each incarnation", "[launch]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory / "run");
  REQUIRE(make_run_directory(*files, run).ok());
  REQUIRE(write_source_spec(*files, run, "source").ok());
  CHECK(*is_used(*files, run) == true);
  REQUIRE(write_resolved_spec(*files, run, 0, "first", "first").ok());
  REQUIRE(write_resolved_spec(*files, run, 1, "cut to fit", "second").ok());
  CHECK(*read_file(*files, run.resolved_spec(0).string(), 100) == "first");
  CHECK(*read_file(*files, run.resolved_spec(1).string(), 100) == "cut to fit");
  CHECK(*read_file(*files, run.resolved_spec().string(), 100) == "second");
  REQUIRE(make_directories(*files, run.logs(1, 0).string()).ok());
  CHECK(fs::is_directory(run.logs(1, 0)));
}

TEST_CASE("run files: how long saves took is read from the end of the events", "[launch]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory / "run");
  CHECK_FALSE(longest_save(*files, run));
  const auto saved = [](double ms) {
    return to_json_line(Event{1.5, 0, CheckpointSaved{.step = 5, .path = "p", .bytes = 7, .ms = ms}}) + "\n";
  };
  touch(run.events(), "checkpoint_saved is no event\n" + to_json_line(Event{1, 0, Note{}}) + "\n");
  CHECK_FALSE(longest_save(*files, run));
  touch(run.events(),
        saved(900'000) + std::string(1 << 20, '\n') + saved(250.5) + saved(100) + "{\"event\": \"chec");
  CHECK(longest_save(*files, run) == Milliseconds{250});
}

TEST_CASE("run files: where logs lie is written down while it is not the usual place", "[launch]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory / "run");
  REQUIRE(make_run_directory(*files, run).ok());
  CHECK(write_log_place(*files, run, std::nullopt).ok());
  CHECK(write_log_place(*files, run, "/scratch/logs").ok());
  CHECK(*read_file(*files, run.log_place().string(), 100) == "/scratch/logs\n");
  CHECK(write_log_place(*files, run, std::nullopt).ok());
  CHECK_FALSE(fs::exists(run.log_place()));
}

TEST_CASE("log tail: the last lines of a file of any size", "[launch]") {
  const test::TemporaryDirectory directory;
  CHECK(last_lines(directory / "none", 5).empty());
  touch(directory / "short", "one\ntwo\nunterminated \x1b[31m");
  CHECK(last_lines(directory / "short", 2) == std::vector<std::string>{"two", "unterminated ?[31m"});
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::string(300, 'x') + std::to_string(i) + "\n";
  touch(directory / "long", text);
  const auto lines = last_lines(directory / "long", 20);
  REQUIRE(lines.size() == 20);
  CHECK(lines.back() == fmt::format("{:x>300}{}", "", 4999));
  CHECK(lines.front() == fmt::format("{:x>300}{}", "", 4980));
  touch(directory / "huge line", std::string(1 << 20, 'y'));
  CHECK(last_lines(directory / "huge line", 20).size() == 1);
}
