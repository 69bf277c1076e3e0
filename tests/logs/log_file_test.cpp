#include "llmtrain/logs/log_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <sys/resource.h>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

std::string slurp(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("line gap: lines are counted, and the text goes on with a whole one", "[logs]") {
  LineGap gap;
  CHECK_FALSE(gap.open());
  CHECK(gap.whole_lines_of("as it is") == "as it is");
  gap.lose("of a line\nanother\nthe start of");
  CHECK(gap.open());
  CHECK(gap.lines() == 3);
  CHECK(gap.whole_lines_of(" a third").empty());
  CHECK(gap.lines() == 3);
  CHECK(gap.whole_lines_of(", and its end\nwhole\n") == "whole\n");
  CHECK(gap.close("why", false) == "[llmtrain: 3 lines dropped: why]\n");
  CHECK_FALSE(gap.open());
  gap.lose("x\n");
  CHECK(gap.close("why", true) == "\n[llmtrain: 1 lines dropped: why]\n");
}

TEST_CASE("log file: pieces by bytes, the first and the newest stay", "[logs]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "rank0.err";
  LogFile log(path, 100, 2);
  std::string all;
  for (int i = 0; i < 60; ++i) {
    const std::string line = "line number " + std::to_string(100 + i) + "\n";  // 16 bytes
    all += line;
    log.write(line);
  }
  std::size_t pieces = 0;
  for (const auto& entry : fs::directory_iterator(directory.path())) {
    ++pieces;
    CHECK(fs::file_size(entry.path()) <= 100);
  }
  CHECK(pieces == 3);
  CHECK(all.starts_with(slurp(path)));
  CHECK(slurp(path).starts_with("line number 100\n"));
  int newest = 0;
  while (newest < 50 && !fs::exists(path + "." + std::to_string(newest + 1))) ++newest;
  std::string tail;
  for (int i = newest; i < 60; ++i) tail += slurp(path + "." + std::to_string(i));
  CHECK(tail.size() > 100);
  CHECK(all.ends_with(tail));
  CHECK(log.take_lost().lines == 0);
}

TEST_CASE("log file: the newest piece stays beside the first, however few are to be kept", "[logs]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "rank0.err";
  LogFile log(path, 100, 0);
  for (int i = 0; i < 60; ++i) log.write("line number " + std::to_string(100 + i) + "\n");
  std::vector<std::string> pieces;
  for (const auto& entry : fs::directory_iterator(directory.path())) pieces.push_back(slurp(entry.path()));
  REQUIRE(pieces.size() == 2);
  CHECK(std::any_of(pieces.begin(), pieces.end(), [](const std::string& p) { return p.ends_with("159\n"); }));
  CHECK(std::any_of(
      pieces.begin(), pieces.end(), [](const std::string& p) { return p.starts_with("line number 100\n"); }));
}

TEST_CASE("log file: its directory is made, once it can be", "[logs]") {
  const test::TemporaryDirectory directory;
  const std::string in_the_way = directory / "logs";
  std::ofstream(in_the_way) << "a file";
  LogFile log(in_the_way + "/0/rank0.err", 0, 1);
  CHECK_FALSE(log.open());
  log.write("one\ntwo\nthr");
  CHECK(log.take_lost().lines == 3);
  CHECK(log.take_lost().lines == 0);
  CHECK(log.take_lost().error == ENOTDIR);
  fs::remove(in_the_way);
  log.write("ee\nfour\n");
  CHECK(log.take_lost().lines == 0);
  CHECK(slurp(log.path()) == "[llmtrain: 3 lines dropped: Not a directory]\nfour\n");
}

TEST_CASE("log file: when the disk takes something again, the log says what is missing", "[logs]") {
  const test::TemporaryDirectory directory;
  LogFile log(directory / "rank0.err", 0, 1);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const rlimit full{20, before.rlim_max};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  struct sigaction was {};
  REQUIRE(sigaction(SIGXFSZ, &ignore, &was) == 0);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &full) == 0);
  log.write("before\n");
  log.write("this does not fit any more\n");
  log.write("nor does this\n");
  const LogFile::Lost lost = log.take_lost();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  REQUIRE(sigaction(SIGXFSZ, &was, nullptr) == 0);
  CHECK(lost.lines == 2);
  CHECK(lost.error == EFBIG);
  log.write("after\n");
  CHECK(slurp(log.path()) == "before\nthis does not\n[llmtrain: 2 lines dropped: File too large]\nafter\n");
  CHECK(log.take_lost().lines == 0);
}
