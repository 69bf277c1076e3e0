#include "llmtrain/logs/log_capture.hpp"

#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using std::chrono::milliseconds;

namespace {

std::vector<std::string> lines_of(std::initializer_list<std::string> pieces) {
  LineFilter filter;
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) { lines.emplace_back(line); };
  for (const std::string& piece : pieces) filter.feed(piece, keep);
  filter.finish(keep);
  return lines;
}

constexpr milliseconds kPatience{60'000};

struct Stream {
  test::TemporaryDirectory directory;
  std::string path = directory / "rank0.out";
  LogWriter logs;
  UniqueFd writer;
  std::vector<std::string> lines;

  LogCapture start(const LogLimits& limits) {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    writer = UniqueFd(ends[1]);
    auto capture = LogCapture::start(UniqueFd(ends[0]),
                                     logs.open(path, limits.max_bytes, limits.keep),
                                     limits,
                                     [this](std::string_view line) { lines.emplace_back(line); });
    REQUIRE(capture.ok());
    return std::move(capture).value();
  }
  void write(const std::string& text) const {
    REQUIRE(::write(writer.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::string log() {
    CHECK_FALSE(logs.flush(kPatience));
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
};

}  // namespace

TEST_CASE("log lines: whole, whatever the pieces", "[logs]") {
  using Lines = std::vector<std::string>;
  CHECK(lines_of({"a\nb", "c\n", "\nd"}) == Lines{"a", "bc", "", "d"});
  CHECK(lines_of({"dos\r\n"}) == Lines{"dos"});
  CHECK(lines_of({}).empty());
  const auto cut = lines_of({std::string(3000, 'x'), std::string(3000, 'x'), "tail\nnext\n"});
  REQUIRE(cut.size() == 2);
  CHECK(cut[0].substr(0, kMaxConsoleLine) == std::string(kMaxConsoleLine, 'x'));
  CHECK(cut[0].substr(kMaxConsoleLine) == " ...");
  CHECK(cut[1] == "next");
  CHECK(lines_of({std::string(kMaxConsoleLine, 'x'), "\n"})[0].size() == kMaxConsoleLine);
}

TEST_CASE("log lines: warnings and errors are told from words that only look like them", "[logs]") {
  for (const char* line : {"error: x",
                           "RuntimeError: shape",
                           "[WARNING] slow",
                           "W0101 warning: y",
                           "ERROR rank 3 died",
                           "terminate called after throwing",
                           "Traceback (most recent call last):",
                           "Segmentation fault",
                           "CUDA out of memory",
                           "Fatal: z",
                           "  warn: w"})
    CHECK(is_alarming(line));
  for (const char* line :
       {"", "loss=0.1", "an error of 0.1 percent", "errors=0", "no warnings", "warned", "forward"})
    CHECK_FALSE(is_alarming(line));
  CHECK(printable_line("a\x1b[2Jb\tc") == "a?[2Jb\tc");
}

TEST_CASE("log storm: a burst passes, a flood is thinned to the rate and counted", "[logs]") {
  StormGate gate({.bytes_per_second = 1000, .burst = 5000});
  CHECK(gate.admit(milliseconds(0), 5000) == 5000);
  CHECK_FALSE(gate.deadline());
  CHECK(gate.admit(milliseconds(0), 100) == 0);
  CHECK(gate.admit(milliseconds(500), 500) == 0);  // closed until a second's worth is there
  CHECK(gate.dropped() == 600);
  CHECK_FALSE(gate.notice(milliseconds(999)));
  REQUIRE(gate.deadline());
  CHECK(*gate.deadline() == milliseconds(1000));
  CHECK(gate.notice(milliseconds(1000)) == 600u);
  CHECK(gate.admit(milliseconds(1000), 400) == 400);
  CHECK_FALSE(gate.notice(milliseconds(5000)));
  CHECK(gate.admit(milliseconds(100'000), 9000) == 5000);
  CHECK(gate.last_notice() == 4000u);
  CHECK(gate.admit(milliseconds(50), 10) == 0);  // a clock that goes back gives nothing
}

TEST_CASE("log capture: what is written reaches the file and the listener", "[logs]") {
  Stream stream;
  LogCapture capture = stream.start({});
  capture.pump(milliseconds(0));  // nothing there: does not block
  stream.write("one\ntw");
  capture.pump(milliseconds(0));
  CHECK(stream.lines == std::vector<std::string>{"one"});
  CHECK(stream.log() == "one\ntw");
  stream.write("o");
  stream.writer = UniqueFd();
  capture.pump(milliseconds(1));
  CHECK(capture.done());
  CHECK(stream.lines == std::vector<std::string>{"one", "two"});
  CHECK(stream.log() == "one\ntwo");
}

TEST_CASE("log capture: the end of a worker is the end of its log, though a grandchild holds the pipe",
          "[logs]") {
  Stream stream;
  LogCapture capture = stream.start({});
  stream.write("last words");
  capture.finish(milliseconds(0));
  CHECK(capture.done());
  CHECK(stream.lines == std::vector<std::string>{"last words"});
}

TEST_CASE("log capture: a storm is capped in the file, and the file says so", "[logs]") {
  Stream stream;
  LogCapture capture =
      stream.start({.max_bytes = 0, .keep = 1, .storm = {.bytes_per_second = 1000, .burst = 4000}});
  const std::string line(99, 'x');
  for (int i = 0; i < 300; ++i) {
    stream.write(line + "\n");
    capture.pump(milliseconds(i * 10));
  }
  capture.finish(milliseconds(3000));
  const std::string text = stream.log();
  CHECK(text.size() < 4000 + 3000 + 1000);
  CHECK(text.find("bytes of output were dropped") != std::string::npos);
  CHECK(capture.dropped() > 20'000);
  for (const std::string& heard : stream.lines) CHECK((heard == line || heard.starts_with("[llmtrain: ")));
  int notices = 0;
  for (const std::string& heard : stream.lines)
    notices += heard.find("were dropped") != std::string::npos ? 1 : 0;
  CHECK(notices >= 2);
  CHECK(notices <= 4);
}

TEST_CASE("log capture: a disk that takes nothing costs the worker nothing", "[logs]") {
  Stream stream;
  stream.path = "/dev/full";
  LogCapture capture = stream.start({});
  stream.write("into the void\n");
  capture.pump(milliseconds(0));
  CHECK(stream.lines == std::vector<std::string>{"into the void"});
  CHECK(stream.logs.flush(kPatience) ==
        "1 lines dropped: /dev/full cannot be written: No space left on device");
}

TEST_CASE("log capture: what came last is held in memory, whatever becomes of the file", "[logs]") {
  Stream stream;
  LogLimits limits;
  limits.storm = {.bytes_per_second = 10, .burst = 10};
  limits.recent = 32;
  LogCapture capture = stream.start(limits);
  stream.write("first\nsecond\n");
  capture.pump(milliseconds(0));
  const std::uint64_t before = capture.seen();
  CHECK(before == 13);
  stream.write("third \x1b line\n");
  capture.pump(milliseconds(1));
  CHECK(capture.dropped() > 0);
  CHECK(capture.since(before) == "third \x1b line\n");
  CHECK(capture.since(capture.seen()).empty());
  CHECK(capture.since(before + 1000).empty());
  CHECK(capture.tail(2) == std::vector<std::string>{"second", "third ? line"});
  for (int i = 0; i < 100; ++i) {
    stream.write("0123456789\n");
    capture.pump(milliseconds(2));
  }
  CHECK(capture.since(0).size() <= 64);
  CHECK(capture.since(0).ends_with("9\n0123456789\n"));
}
