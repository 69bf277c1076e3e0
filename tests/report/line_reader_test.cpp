#include "llmtrain/report/line_reader.hpp"

#include <fstream>
#include <random>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

namespace {

std::vector<std::string> all(LineReader& reader) {
  std::vector<std::string> lines;
  for (std::string_view line; reader.next(line);) lines.emplace_back(line);
  return lines;
}

struct File {
  test::TemporaryDirectory directory;
  std::string path = directory / "lines";
  std::unique_ptr<FileSystem> files = make_posix_filesystem();

  LineReader open(const std::string& text, std::uint64_t from = 0) {
    std::ofstream(path, std::ios::binary) << text;
    auto reader = LineReader::open(*files, path, from);
    REQUIRE(reader.ok());
    return std::move(reader).value();
  }
};

}  // namespace

TEST_CASE("lines: whole ones come out, a torn end is counted", "[report]") {
  File file;
  auto reader = file.open("a\n\nbc\nde");
  CHECK(all(reader) == std::vector<std::string>{"a", "", "bc"});
  CHECK(reader.torn());
  auto whole = file.open("a\n");
  CHECK(all(whole) == std::vector<std::string>{"a"});
  CHECK_FALSE(whole.torn());
  auto empty = file.open("");
  CHECK(all(empty).empty());
  CHECK_FALSE(empty.torn());
}

TEST_CASE("lines: a missing file has none", "[report]") {
  File file;
  auto reader = LineReader::open(*file.files, file.directory / "nothing");
  REQUIRE(reader.ok());
  CHECK(all(*reader).empty());
}

TEST_CASE("lines: a tail starts with a whole line", "[report]") {
  File file;
  const std::string text = "first\nsecond\nthird\n";
  auto middle = file.open(text, 3);
  CHECK(all(middle) == std::vector<std::string>{"second", "third"});
  auto at_start = file.open(text, 6);
  CHECK(all(at_start) == std::vector<std::string>{"second", "third"});
  auto inside = file.open(text, 7);
  CHECK(all(inside) == std::vector<std::string>{"third"});
  auto behind = file.open(text, 100);
  CHECK(all(behind).empty());
}

TEST_CASE("lines: one that is too long is left out and those around it are not", "[report]") {
  File file;
  auto reader = file.open("before\n" + std::string(3 << 20, 'x') + "\nafter\n");
  CHECK(all(reader) == std::vector<std::string>{"before", "after"});
  CHECK(reader.too_long() == 1);
  auto torn = file.open("before\n" + std::string(3 << 20, 'x'));
  CHECK(all(torn) == std::vector<std::string>{"before"});
}

TEST_CASE("lines: lines of any length over the borders of reads", "[report]") {
  File file;
  std::mt19937 random(7);
  std::vector<std::string> lines;
  std::string text;
  while (text.size() < (2 << 20)) {
    lines.emplace_back(random() % 2 == 0 ? random() % 9 : random() % 300'000,
                       static_cast<char>('a' + random() % 26));
    text += lines.back() + "\n";
  }
  auto reader = file.open(text);
  CHECK((all(reader) == lines));
}
