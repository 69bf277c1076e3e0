#include "llmtrain/spec/tree.hpp"

#include "llmtrain/spec/write.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

YamlNode tree_of(const std::string& yaml) {
  Diagnostics diagnostics;
  YamlNode tree = parse_yaml(yaml, "job.yaml", diagnostics);
  REQUIRE_FALSE(diagnostics.has_errors());
  return tree;
}

std::string merged(const std::string& base, const std::string& over) {
  YamlNode tree = tree_of(base);
  merge(tree, tree_of(over));
  return to_yaml(tree);
}

std::string overridden(const std::string& base, const std::string& argument) {
  YamlNode tree = tree_of(base);
  Diagnostics diagnostics;
  apply_override(tree, argument, "job.yaml", diagnostics);
  for (const Diagnostic& diagnostic : diagnostics.all()) return diagnostic.text();
  return to_yaml(tree);
}

}  // namespace

TEST_CASE("tree: maps merge deeply, lists and values are replaced", "[spec]") {
  CHECK(merged("a: {b: 1, c: 2}", "a: {c: 3, d: 4}") == "a:\n  b: 1\n  c: 3\n  d: 4\n");
  CHECK(merged("a: [1, 2]", "a: [3]") == "a: [3]\n");
  CHECK(merged("a: {b: 1}", "a: x") == "a: x\n");
  CHECK(merged("a: x", "a: {b: 1}") == "a:\n  b: 1\n");
  CHECK(merged("a: {b: 1}", "a:") == "a:\n  b: 1\n");
  CHECK(merged("a: 1", "b: 2") == "a: 1\nb: 2\n");
}

TEST_CASE("tree: --set takes values, lists, maps and items", "[spec]") {
  CHECK(overridden("a: {b: 1}", "a.b=2") == "a:\n  b: 2\n");
  CHECK(overridden("{}", "a.b=2") == "a:\n  b: 2\n");
  CHECK(overridden("a: {b: 1}", "a.b=") == "a:\n  b: \"\"\n");
  CHECK(overridden("{}", "faults=[{kind: sleep, ms: 100, each: step}]") ==
        "faults:\n  - kind: sleep\n    ms: 100\n    each: step\n");
  CHECK(overridden("a: {b: 1}", "a={c: 2}") == "a:\n  b: 1\n  c: 2\n");
  CHECK(overridden("a: [{p: 1}, {p: 2}]", "a[1].p=x=y") == "a:\n  - p: 1\n  - p: \"x=y\"\n");
  CHECK(overridden("a: [{p: 1}]", "a[0].q=3") == "a:\n  - p: 1\n    q: 3\n");
  CHECK(overridden("a: 1", "a=a value, with commas") == "a: \"a value, with commas\"\n");
}

TEST_CASE("tree: a bad --set names the job and the argument", "[spec]") {
  CHECK_THAT(overridden("{}", "nonsense"),
             Contains("job.yaml: --set nonsense: not an override; write section.field=value"));
  for (const char* argument :
       {"=1", ".a=1", "a.=1", "a..b=1", "a[=1", "a[x]=1", "a[0=1", "[0]=1", "a[-1]=1", ""})
    CHECK_THAT(overridden("a: [1]", argument), Contains("not an override"));
  CHECK_THAT(
      overridden("{}", "a=[1"),
      Contains("job.yaml: --set a=[1: a list or map as a key; keys are text (is a bracket left open?)"));
  CHECK_THAT(overridden("{}", "a='1"), Contains("job.yaml: --set a='1: not YAML"));
  CHECK_THAT(overridden("{}", "a={b: 1, b: 2}"), Contains("given twice"));
  CHECK_THAT(overridden("a: [1]", "a[3]=1"), Contains("a[3]: no such item"));
  CHECK_THAT(overridden("a: {b: 1}", "a[0].b=1"), Contains("no such item"));
  CHECK(overridden("{}", "a." + std::string(5000, 'x') + "=[").size() < 300);
}

TEST_CASE("tree: the origin of a missing field is the section around it", "[spec]") {
  const YamlNode tree = tree_of("a: 1\nb:\n  c: 2\n");
  CHECK(origin_of(tree, "b.c").text() == "job.yaml:3:6");
  CHECK(origin_of(tree, "b.x").text() == "job.yaml:3:3");
  CHECK(origin_of(tree, "x.y").text() == "job.yaml:1:1");
}
