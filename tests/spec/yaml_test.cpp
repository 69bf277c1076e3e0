#include "llmtrain/spec/yaml.hpp"

#include "llmtrain/spec/tree.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

struct Parsed {
  Diagnostics diagnostics;
  YamlNode tree;
  explicit Parsed(const std::string& text) { tree = parse_yaml(text, "my job.yaml", diagnostics); }
  std::string messages() const {
    std::string out;
    for (const Diagnostic& diagnostic : diagnostics.all()) out += diagnostic.text() + "\n";
    return out;
  }
};

std::string place(const Parsed& parsed, const char* path) {
  const YamlNode* node = find_path(parsed.tree, path);
  return node == nullptr ? "nowhere" : node->origin.text();
}

}  // namespace

TEST_CASE("yaml: every value knows its file, line and column", "[spec]") {
  const Parsed parsed("a: 1\nb:\n  c: [x, yy]\n  d: {e: f}\n");
  CHECK(parsed.messages().empty());
  CHECK(place(parsed, "a") == "my job.yaml:1:4");
  CHECK(place(parsed, "b.c[1]") == "my job.yaml:3:10");
  CHECK(place(parsed, "b.d.e") == "my job.yaml:4:10");
}

TEST_CASE("yaml: a byte-order mark and CRLF change nothing", "[spec]") {
  const Parsed parsed(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x y\r\n");
  CHECK(parsed.messages().empty());
  CHECK(find_path(parsed.tree, "a")->text == "1");
  CHECK(find_path(parsed.tree, "b")->text == "x y");
  CHECK(place(parsed, "b") == "my job.yaml:2:4");
}

TEST_CASE("yaml: scalars stay text, and quotes are remembered", "[spec]") {
  const Parsed parsed("a: on\nb: 1e-4\nc: \"1e-4\"\nd: 'no'\ne: 007\nf:\ng: ~\nh: \"\"\n");
  CHECK(find_path(parsed.tree, "a")->text == "on");
  CHECK(find_path(parsed.tree, "b")->text == "1e-4");
  CHECK_FALSE(find_path(parsed.tree, "b")->quoted);
  CHECK(find_path(parsed.tree, "c")->quoted);
  CHECK(find_path(parsed.tree, "d")->text == "no");
  CHECK(find_path(parsed.tree, "e")->text == "007");
  CHECK(find_path(parsed.tree, "f")->kind == YamlNode::Kind::kNull);
  CHECK(find_path(parsed.tree, "g")->kind == YamlNode::Kind::kNull);
  CHECK(find_path(parsed.tree, "h")->is_scalar());
}

TEST_CASE("yaml: a key given twice is refused with both places, at the top and nested", "[spec]") {
  const Parsed parsed("a: 1\nb: {c: 1, d: 2, c: 3}\na: 2\n");
  CHECK_THAT(parsed.messages(),
             Contains("my job.yaml:2:17: the key c is given twice; the first one is at my job.yaml:2:5"));
  CHECK_THAT(parsed.messages(),
             Contains("my job.yaml:3:1: the key a is given twice; the first one is at my job.yaml:1:1"));
}

TEST_CASE("yaml: aliases are copies", "[spec]") {
  const Parsed parsed("a: &x {b: 1}\nc: *x\nd: [&y 5, *y]\n");
  CHECK(parsed.messages().empty());
  CHECK(find_path(parsed.tree, "c.b")->text == "1");
  CHECK(find_path(parsed.tree, "d[1]")->text == "5");
}

TEST_CASE("yaml: what is not a job file is refused with its place", "[spec]") {
  const struct {
    std::string text;
    const char* message;
  } cases[] = {
      {"a: [1, 2\n", "not YAML"},
      {"a: b: c\n", "my job.yaml:1:5: not YAML"},
      {"\ta: 1\n", "not YAML"},
      {"a: 1\n---\nb: 2\n", "a second document"},
      {"- a\n- b\n", "my job.yaml:1:1: a list; a job file is a map of sections"},
      {"just text\n", "a value; a job file is a map of sections"},
      {"? [a]\n: 1\n", "keys are text"},
      {"a: !!python/object:x 1\n", "the tag"},
      {"a: !mine 1\n", "the tag"},
      {"a: *nowhere\n", "not YAML"},
      {"a: &x [*x]\n", "an alias inside its own anchor"},
      {"b: &x {c: 1}\na: {<<: *x}\n", "the merge key <<"},
      {"a: \xff\n", "my job.yaml:1:4: the byte 0xff is not UTF-8"},
      {"ok: 1\nab: \xc3\n", "my job.yaml:2:5: the byte 0xc3 is not UTF-8"},
      {std::string("a: \0b\n", 6), "the byte 0x00"},
      {"\xFF\xFE"
       "a",
       "the byte 0xff"},
      {std::string(YamlLimits::kBytes + 1, ' '), "1048577 bytes long"},
      {"a: " + std::string(100, '[') + std::string(100, ']'), "nested more than 32 levels"},
  };
  for (const auto& refused : cases) {
    const Parsed parsed(refused.text);
    INFO(refused.message);
    CHECK(parsed.diagnostics.has_errors());
    CHECK_THAT(parsed.messages(), Contains(refused.message));
  }
}

TEST_CASE("yaml: an alias bomb is refused before it grows", "[spec]") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  const Parsed parsed(bomb);
  CHECK_THAT(parsed.messages(), Contains("more than 100000 values (aliases counted as copies)"));
}

TEST_CASE("yaml: a map with too many keys is refused", "[spec]") {
  std::string keys;
  for (std::size_t i = 0; i <= YamlLimits::kKeys; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  CHECK_THAT(Parsed(keys).messages(), Contains("my job.yaml:1001:1: more than 1000 keys in one map"));
}

TEST_CASE("yaml: an empty file is an empty job", "[spec]") {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n"}) {
    const Parsed parsed(text);
    CHECK_FALSE(parsed.diagnostics.has_errors());
    CHECK(parsed.tree.is_map());
  }
}
