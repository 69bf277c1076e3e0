#include "llmtrain/logs/log_writer.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llmtrain/core/unique_fd.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

namespace {

constexpr Milliseconds kPatience{60'000};
constexpr Milliseconds kNone{0};

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A disk that hangs: opening it waits until somebody reads, and writing while nobody does.
struct HangingDisk {
  test::TemporaryDirectory directory;
  std::string path = directory / "rank0.err";
  UniqueFd reader;

  HangingDisk() { REQUIRE(mkfifo(path.c_str(), 0600) == 0); }
  void wake() {
    reader = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(reader.valid());
  }
  // What comes until `end` does.
  std::string read_until(const std::string& end) const {
    std::string text;
    char chunk[65536];
    while (!has(text, end)) {
      pollfd fd{reader.get(), POLLIN, 0};
      REQUIRE(::poll(&fd, 1, static_cast<int>(kPatience.count())) == 1);
      const ssize_t got = ::read(reader.get(), chunk, sizeof chunk);
      REQUIRE(got > 0);
      text.append(chunk, static_cast<std::size_t>(got));
    }
    return text;
  }
};

}  // namespace

TEST_CASE("log writer: logs are made at once and hold what was written, in its order", "[logs]") {
  const test::TemporaryDirectory directory;
  LogWriter writer;
  {
    auto silent = writer.open(directory / "deep/er/rank0.out", 0, 1);
    auto one = writer.open(directory / "deep/er/rank0.err", 0, 1);
    auto other = writer.open(directory / "deep/er/rank1.err", 64, 2);
    std::string expected;
    for (int i = 0; i < 1000; ++i) {
      const std::string line = "line " + std::to_string(i) + "\n";
      expected += line;
      one.write(line);
      other.write(line);
    }
    CHECK_FALSE(writer.flush(kPatience));
    CHECK(slurp(directory / "deep/er/rank0.err") == expected);
    CHECK(slurp(directory / "deep/er/rank0.out").empty());
    CHECK(std::filesystem::exists(directory / "deep/er/rank0.out"));
    CHECK(expected.starts_with(slurp(directory / "deep/er/rank1.err")));
    one.write("the last one, and its file is closed");
  }
  CHECK_FALSE(writer.flush(kPatience));
  CHECK(slurp(directory / "deep/er/rank0.err").ends_with("its file is closed"));
  CHECK_FALSE(writer.notice(kNone));
}

TEST_CASE("log writer: a disk that hangs holds up nobody, and what is dropped is counted and said",
          "[logs]") {
  HangingDisk disk;
  LogWriter writer({.of_one_log = 1000, .in_all = 10'000});
  auto log = writer.open(disk.path, 0, 1);
  std::string line(100, 'x');
  line.back() = '\n';
  for (int i = 0; i < 10; ++i) log.write(line);  // as much as may wait
  CHECK_FALSE(writer.notice(kNone));
  for (int i = 0; i < 7; ++i) log.write(line);
  log.write("the start of a line");
  const std::string slow = "the log's disk is slow (" + disk.path + ")";
  CHECK(writer.notice(Instant{1}) == "8 lines dropped: " + slow);
  log.write(", and its end\n");
  log.write(line);
  CHECK_FALSE(writer.notice(Instant{9'999}));  // not so soon again
  CHECK(writer.notice(Instant{10'001}) == "1 lines dropped: " + slow);

  disk.wake();
  CHECK(disk.read_until("x\n").size() > 0);
  CHECK_FALSE(writer.flush(kPatience));
  log.write("it goes on\n");
  const std::string rest = disk.read_until("it goes on\n");
  CHECK(rest.ends_with("[llmtrain: 9 lines dropped: the log's disk is slow]\nit goes on\n"));
  CHECK_FALSE(writer.flush(kPatience));
}

TEST_CASE("log writer: one log that waits takes nothing from another, up to the bound of all", "[logs]") {
  HangingDisk disk;
  LogWriter writer({.of_one_log = 1000, .in_all = 1500});
  auto log = writer.open(disk.path, 0, 1);
  auto other = writer.open(disk.directory / "rank1.err", 0, 1);
  for (int i = 0; i < 2000; ++i) log.write("x\n");
  CHECK(writer.notice(kNone)->starts_with("1500 lines dropped"));
  for (int i = 0; i < 250; ++i) other.write("y\n");
  CHECK_FALSE(writer.notice(Instant{20'000}));
  other.write("y\n");
  CHECK(writer.notice(Instant{20'000})->starts_with("1 lines dropped"));
  disk.wake();
  CHECK_FALSE(writer.flush(kPatience));
  CHECK(slurp(disk.directory / "rank1.err").size() == 500);
}

TEST_CASE("log writer: the end waits for the disk as long as it is told, and no longer", "[logs]") {
  HangingDisk disk;
  {
    LogWriter writer;
    auto log = writer.open(disk.path, 0, 1);
    log.write("one\ntwo\nthree\n");
    const auto lost = writer.flush(Milliseconds{10});
    REQUIRE(lost);
    CHECK(lost->starts_with("3 lines dropped: the log's disk is slow"));
  }  // goes away while its thread hangs
  disk.wake();
}
