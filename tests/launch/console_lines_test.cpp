#include "llmtrain/launch/console_lines.hpp"

#include <fmt/format.h>

#include "tests/support/catch.hpp"

using namespace llmtrain;
using std::chrono::milliseconds;

namespace {

std::vector<std::string> texts(const std::vector<NodeSaid>& said) {
  std::vector<std::string> result;
  for (const NodeSaid& line : said) result.push_back(fmt::format("{} {}", line.rank, line.text));
  return result;
}

}  // namespace

TEST_CASE("console lines: what --tee chose by local rank, and every warning", "[launch]") {
  using Texts = std::vector<std::string>;
  ConsoleLines lines(Tee::parse("1:1").value());
  lines.line(8, 0, WorkerStream::kErr, "ordinary");
  lines.line(8, 0, WorkerStream::kErr, "error: \x1b[31mred");
  lines.line(9, 1, WorkerStream::kOut, "chosen");
  lines.line(9, 1, WorkerStream::kErr, "not chosen");
  lines.line(9, 1, WorkerStream::kErr, "llmtrain-stack 0 lib.so+0x1 error: f");
  const auto said = lines.take(milliseconds(5), false);
  CHECK(texts(said) == Texts{"8 error: ?[31mred", "9 chosen"});
  CHECK(said[0].severity == Severity::kWarning);
  CHECK(said[1].severity == Severity::kInfo);
  CHECK((said[0].output && said[1].output));
  CHECK(lines.take(milliseconds(6), true).empty());
  lines.line(8, 0, WorkerStream::kOut, "error: " + std::string(2000, 'x'));
  const auto cut = lines.take(milliseconds(7), false);
  REQUIRE(cut.size() == 1);
  CHECK(cut[0].text.size() == ConsoleLines::kMaxBytes + 4);
}

TEST_CASE("console lines: a flood is cut to the burst, then to the rate, and what is left out is counted",
          "[launch]") {
  ConsoleLines lines(Tee::parse("3").value());
  lines.start("/logs/0/node1");
  const auto flood = [&](int n) {
    for (int i = 0; i < n; ++i) lines.line(0, 0, WorkerStream::kOut, "line");
  };
  CHECK(lines.take(milliseconds(10'000), false).empty());
  flood(1000);
  auto said = lines.take(milliseconds(10'100), false);
  REQUIRE(said.size() == ConsoleLines::kBurst + 1);
  CHECK(said.back().text == "900 more lines of output are in /logs/0/node1");
  flood(1000);
  CHECK(lines.take(milliseconds(10'200), false).empty());  // said a moment ago
  CHECK(lines.take(milliseconds(11'100), false).size() == 1);
  flood(1000);
  said = lines.take(milliseconds(11'150), false);
  CHECK(said.size() == ConsoleLines::kLinesPerSecond);
  said = lines.take(milliseconds(11'160), true);  // the end of the workers: now or never
  REQUIRE(said.size() == 1);
  CHECK(said[0].text == "980 more lines of output are in /logs/0/node1");
}
