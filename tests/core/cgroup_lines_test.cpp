#include "llmtrain/core/cgroup_lines.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("cgroup lines: version 1, version 2 and both at once", "[core]") {
  const auto lines =
      cgroup_lines("11:memory:/job\n4:cpu,cpuacct:/a:b\n1:name=systemd:/init.scope\n0::/user.slice/x\n");
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].has("memory"));
  CHECK_FALSE(lines[0].has("mem"));
  CHECK_FALSE(lines[0].is_version_2());
  CHECK(lines[1].has("cpu"));
  CHECK(lines[1].has("cpuacct"));
  CHECK(lines[1].path == "/a:b");
  CHECK_FALSE(lines[2].has("systemd"));
  CHECK(lines[3].is_version_2());
  CHECK_FALSE(lines[3].has(""));
  CHECK(lines[3].path == "/user.slice/x");
}

TEST_CASE("cgroup lines: what is none is passed over, and what leads out of the mount is its root",
          "[core]") {
  CHECK(cgroup_lines("").empty());
  CHECK(cgroup_lines("\n\nno colon\n1:one only\n").empty());
  CHECK(cgroup_lines("0::/../../elsewhere\n").at(0).path == "/");
  CHECK(cgroup_lines("0::/").at(0).path == "/");  // without a newline
}
