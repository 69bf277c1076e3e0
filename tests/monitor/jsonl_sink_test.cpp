#include "llmtrain/monitor/jsonl_sink.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  fs::path path = fs::temp_directory_path() / ("llmtrain jsonl " + std::to_string(::getpid()));
  TempDir() { fs::create_directories(path); }
  ~TempDir() { fs::remove_all(path); }
};

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void put(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

Event step(std::int64_t k) {
  StepReport report;
  report.step = k;
  return {1.5, 0, report};
}

std::string row(std::int64_t k) {
  return to_metrics_line(std::get<StepReport>(step(k).body), 1.5, 0) + "\n";
}

}  // namespace

TEST_CASE("jsonl: steps go to metrics, the rest to events, both appended", "[monitor]") {
  TempDir dir;
  const Event stop{2.5, 0, StopRequested{"SIGTERM"}};
  for (int life = 0; life < 2; ++life) {
    auto sink = JsonlSink::open(dir.path);
    REQUIRE(sink);
    (*sink)->on(step(1));
    CHECK(content(dir.path / "metrics.jsonl").ends_with(row(1)));  // there at once
    (*sink)->on(stop);
    CHECK_FALSE((*sink)->first_failure());
  }
  CHECK(content(dir.path / "metrics.jsonl") == row(1) + row(1));
  CHECK(content(dir.path / "events.jsonl") == to_json_line(stop) + "\n" + to_json_line(stop) + "\n");
}

TEST_CASE("jsonl: a torn last line is mended", "[monitor]") {
  TempDir dir;
  const fs::path metrics = dir.path / "metrics.jsonl";
  const std::string whole = row(2).substr(0, row(2).size() - 1);
  const std::string foreign(3 << 20, 'x');
  const auto [before, kept] = GENERATE_COPY(table<std::string, std::string>({
      {"", ""},
      {row(1), row(1)},
      {row(1) + whole, row(1) + whole + "\n"},  // only the newline is missing
      {row(1) + whole.substr(0, 20), row(1)},   // cut short
      {whole.substr(0, 20), ""},
      {row(1) + std::string(300, '\0'), row(1)},  // blocks that never reached the disk
      {foreign, foreign + "\n"},                  // not ours: untouched
  }));
  put(metrics, before);
  auto sink = JsonlSink::open(dir.path);
  REQUIRE(sink);
  (*sink)->on(step(3));
  CHECK((content(metrics) == kept + row(3)));
}

TEST_CASE("jsonl: a directory that cannot be written is an error that names the path", "[monitor]") {
  TempDir dir;
  const auto missing = JsonlSink::open(dir.path / "nowhere");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kStorage);
  CHECK(missing.error().message.find("nowhere/metrics.jsonl") != std::string::npos);
  fs::create_directories(dir.path / "metrics.jsonl");
  CHECK_FALSE(JsonlSink::open(dir.path));
}

TEST_CASE("jsonl: a full disk loses lines, not the run, and leaves whole lines", "[monitor]") {
  TempDir dir;
  auto sink = JsonlSink::open(dir.path);
  REQUIRE(sink);
  (*sink)->on(step(1));
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = row(1).size() + 30;  // the next row fits in part
  ::setrlimit(RLIMIT_FSIZE, &tight);
  (*sink)->on(step(2));
  (*sink)->on(step(3));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  (*sink)->on(step(4));
  CHECK((*sink)->lost_lines() == 2);
  REQUIRE((*sink)->first_failure());
  CHECK((*sink)->first_failure()->code == ErrorCode::kStorage);
  CHECK(content(dir.path / "metrics.jsonl") == row(1) + row(4));
}
