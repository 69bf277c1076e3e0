#include "llmtrain/discovery/hostlist.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

std::string joined(const std::string& text) {
  const auto names = expand_hostlist(text);
  return names ? fmt::format("{}", fmt::join(*names, " ")) : "refused: " + names.error().message;
}

}  // namespace

TEST_CASE("hostlist: every notation of Slurm", "[discovery]") {
  struct Row {
    const char* text;
    const char* names;
  };
  // The first five are lists that other launchers have misread in public reports.
  const Row rows[] = {
      {"gpu[1,2]", "gpu1 gpu2"},
      {"hostA,hostB[001,003],hostC", "hostA hostB001 hostB003 hostC"},
      {"c11-032,c12-002", "c11-032 c12-002"},
      {"n", "n"},
      {"node[001-003,007]", "node001 node002 node003 node007"},
      {"n[1-3,07-09],gpu-[a,b]x[01-02]-ib0",
       "n1 n2 n3 n07 n08 n09 gpu-ax01-ib0 gpu-ax02-ib0 gpu-bx01-ib0 gpu-bx02-ib0"},
      {"n[08-11]", "n08 n09 n10 n11"},
      {"n[8-11]", "n8 n9 n10 n11"},
      {"n[1-003]", "n1 n2 n3"},
      {"n[098-101]", "n098 n099 n100 n101"},
      {"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"},
      {"[a,b]", "a b"},
      {"[1-2]x", "1x 2x"},
      {"n[1]", "n1"},
      {"n[a-b]", "na-b"},
      {"[r1n[1-2],r2n[5-6]]-ib", "r1n1-ib r1n2-ib r2n5-ib r2n6-ib"},
      {"a.example.org,b_1.example.org", "a.example.org b_1.example.org"},
      {"n[3,1-2]", "n3 n1 n2"},
      {" n[1-2]\n", "n1 n2"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    CHECK(joined(row.text) == row.names);
  }
}

TEST_CASE("hostlist: what no list is, is refused with its place", "[discovery]") {
  struct Row {
    const char* text;
    const char* part;
  };
  const Row rows[] = {
      {"", "a name is missing"},
      {"a,,b", "a name is missing"},
      {"a,", "a name is missing"},
      {"n[]", "a name is missing"},
      {"n[1-2", "a `[` that is not closed"},
      {"gpu[1", "a `[` that is not closed"},
      {"n1]", "a `]` that closes nothing"},
      {"n[3-1]", "the range 3-1 runs backwards"},
      {"n[1-99999999999999999999]", "a number of more than 9 digits"},
      {"n[0-999999999]", "more than 65536 names"},
      {"n[1-300]x[1-300]", "more than 65536 names"},
      {"n[1-60000],m[1-60000]", "more than 65536 names"},
      {"a b", "a character that no host name has"},
      {"a;rm", "a character that no host name has"},
      {"n[1:2]", "a character that no host name has"},
      {"[[[[[a]]]]]", "brackets deeper than 4"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto names = expand_hostlist(row.text);
    REQUIRE_FALSE(names);
    CHECK(names.error().message.find(row.part) != std::string::npos);
    CHECK(names.error().code == ErrorCode::kUsage);
  }
  CHECK_FALSE(expand_hostlist(std::string(300, 'n')));
  CHECK_FALSE(expand_hostlist(std::string(kMaxHostlistBytes + 1, 'n')));
}

TEST_CASE("hostlist: a text of thousands of brackets costs no more than the limits", "[discovery]") {
  std::string text = "n";
  for (int i = 0; i < 100'000; ++i) text += "[1-2]";
  CHECK_FALSE(expand_hostlist(text));
  std::string ones = "n";
  for (int i = 0; i < 100'000; ++i) ones += "[1]";
  CHECK_FALSE(expand_hostlist(ones));  // a name of 100,001 characters
  CHECK(expand_hostlist("n[0-65535]").value().size() == kMaxHosts);
}

TEST_CASE("node order: names one a line, or Slurm's topology.conf", "[discovery]") {
  const auto lines = parse_node_order("# rack 2 first\nn3\n\n n[1-2] # rack 1\n", "order.txt");
  REQUIRE(lines);
  CHECK(*lines == std::vector<std::string>{"n3", "n1", "n2"});

  const auto topology = parse_node_order(
      "SwitchName=s1 Nodes=n[3-4] LinkSpeed=100\nSwitchName=s2 Nodes=n[1-2]\nSwitchName=top "
      "Switches=s[1-2]\n",
      "topology.conf");
  REQUIRE(topology);
  CHECK(*topology == std::vector<std::string>{"n3", "n4", "n1", "n2"});

  const auto twice = parse_node_order("n1\nn[1-2]\n", "order.txt");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().message == "order.txt:2: n1 is there twice");
  CHECK_FALSE(parse_node_order("\n# nothing\n", "order.txt"));
  const auto bad = parse_node_order("n1\nn[2\n", "order.txt");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message.find("order.txt:2: ") == 0);
}
