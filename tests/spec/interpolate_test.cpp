#include "llmtrain/spec/tree.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

struct Interpolated {
  YamlNode tree;
  std::string messages;

  explicit Interpolated(const std::string& yaml, const std::string& defaults = "{}") {
    Diagnostics diagnostics;
    tree = parse_yaml(yaml, "job.yaml", diagnostics);
    const YamlNode fallback = parse_yaml(defaults, "defaults", diagnostics);
    REQUIRE_FALSE(diagnostics.has_errors());
    interpolate(
        tree, fallback, {{"USER", "ada"}, {"EMPTY", ""}, {"TRICK", "${a}"}, {"LATIN", "\xe9"}}, diagnostics);
    for (const Diagnostic& diagnostic : diagnostics.all()) messages += diagnostic.text() + "\n";
  }
  std::string at(const char* path) const { return find_path(tree, path)->text; }
};

}  // namespace

TEST_CASE("interpolate: fields and environment variables are inserted", "[spec]") {
  const Interpolated job(
      "run: {name: tiny, dir: 'runs/${run.name}/${env:USER}', b: '${run.c}', c: 'x${run.name}'}\n"
      "data: {train: [{path: 'p-${data.n}'}], n: 8, again: '${data.train[0].path}', none: "
      "'a${env:EMPTY}b'}\n");
  CHECK(job.messages.empty());
  CHECK(job.at("run.dir") == "runs/tiny/ada");
  CHECK(job.at("run.b") == "xtiny");
  CHECK(job.at("data.train[0].path") == "p-8");
  CHECK(job.at("data.again") == "p-8");
  CHECK(job.at("data.none") == "ab");
}

TEST_CASE("interpolate: a default is found where the job is silent", "[spec]") {
  CHECK(Interpolated("a: '${run.seed}'", "run: {seed: 7}").at("a") == "7");
}

TEST_CASE("interpolate: $${ is literal, a lone dollar is nothing special", "[spec]") {
  const Interpolated job("a: 'x$${y}'\nb: '$5 and ${env:USER}$'\nc: '${env:TRICK}'\nd: '$${a}${env:USER}'\n");
  CHECK(job.messages.empty());
  CHECK(job.at("a") == "x${y}");
  CHECK(job.at("b") == "$5 and ada$");
  CHECK(job.at("c") == "${a}");  // what a variable holds is not expanded again
  CHECK(job.at("d") == "${a}ada");
}

TEST_CASE("interpolate: what cannot be inserted is an error with its place", "[spec]") {
  const struct {
    const char* yaml;
    const char* message;
  } cases[] = {
      {"a: '${b}'\n", "job.yaml:1:4: a: ${b}: no such field; allowed: the path of a field, or env:NAME"},
      {"a: '${env:NOPE}'\n", "${env:NOPE}: no such environment variable"},
      {"a: '${env:LATIN}'\n", "${env:LATIN}: its value is not UTF-8 text"},
      {"a: '${a}'\n", "refers to itself: a -> a"},
      {"a: '${b}'\nb: '${c}'\nc: '${a}'\n", "a: ${a} refers to itself: a -> b -> c -> a"},
      {"a: '${b'\n", "`${` without its `}`"},
      {"a: '${b}'\nb: {c: 1}\n", "${b} is a map; only single values can be inserted"},
      {"a: '${b}'\nb: [1]\n", "${b} is a list"},
      {"a: '${}'\n", "no such field"},
      {"a: '${..}'\n", "no such field"},
      {"a: ['${nope}']\n", "a[0]: ${nope}: no such field"},
  };
  for (const auto& refused : cases) {
    INFO(refused.yaml);
    CHECK_THAT(Interpolated(refused.yaml).messages, Contains(refused.message));
  }
}

TEST_CASE("interpolate: references that multiply are stopped", "[spec]") {
  std::string empty = "a0: ''\n";
  std::string full = "a0: '0123456789'\n";
  for (int i = 1; i < 30; ++i) {
    const std::string twice =
        "a" + std::to_string(i) + ": '${a" + std::to_string(i - 1) + "}${a" + std::to_string(i - 1) + "}'\n";
    empty += twice;
    full += twice;
  }
  CHECK_THAT(Interpolated(empty).messages, Contains("more than 10000 references"));
  CHECK_THAT(Interpolated(full).messages,
             Contains("longer than 65536") || Contains("more than 10000 references"));
}
