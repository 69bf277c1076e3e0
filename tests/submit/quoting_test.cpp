#include "llmtrain/submit/quoting.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("quoting: a word of a shell", "[submit]") {
  CHECK(shell_quoted("runs/a-1.b") == "runs/a-1.b");
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("a b") == "'a b'");
  CHECK(shell_quoted("it's $(rm)") == "'it'\\''s $(rm)'");
  CHECK(shell_quoted("~") == "'~'");
  CHECK(shell_words({"a", "b c"}) == "a 'b c'");
}

TEST_CASE("quoting: a value of sbatch", "[submit]") {
  CHECK(sbatch_quoted("a100&ib|[x*2]") == "a100&ib|[x*2]");
  CHECK(sbatch_quoted("a b") == "\"a b\"");
  CHECK(sbatch_quoted("a\"b\\") == "\"a\\\"b\\\\\"");
  CHECK(sbatch_quoted("a#b") == "\"a#b\"");
}

TEST_CASE("quoting: a scalar of YAML is always a text", "[submit]") {
  CHECK(yaml_quoted("no") == "\"no\"");
  CHECK(yaml_quoted("a\"b\\c\n\t") == "\"a\\\"b\\\\c\\n\\x09\"");
  CHECK(kubernetes_quoted("$(A) $$ $B") == "\"$$(A) $$$ $B\"");
}

TEST_CASE("quoting: names of Kubernetes", "[submit]") {
  CHECK(dns_name("small-1", 45) == "small-1");
  for (const char* name : {"Small", "a_b", "-a", "a-", "1a", "", "\xc3\xa9", "a/../b", "a;rm -rf"}) {
    INFO(name);
    const std::string found = dns_name(name, 45);
    CHECK(found.size() <= 45);
    CHECK(found.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos);
    CHECK((found.front() >= 'a' && found.front() <= 'z'));
    CHECK(found.back() != '-');
  }
  CHECK(dns_name("a_b", 45) != dns_name("a.b", 45));
  CHECK(dns_name(std::string(200, 'x'), 45).size() == 45);
  CHECK(dns_name(std::string(200, 'x'), 45) != dns_name(std::string(201, 'x'), 45));
}
