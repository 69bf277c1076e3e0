#include "llmtrain/diagnosis/failure_evidence.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("failure evidence: groups are those of the mesh, so that nobody waits for another group",
          "[diagnosis]") {
  FailureEvidence evidence;
  evidence.forget({.dp = 2, .tp = 2});
  const Evidence made = evidence.make({}, 0);
  const auto ranks_of = [&](const std::string& name) {
    std::vector<std::vector<int>> ranks;
    for (const GroupMembers& group : made.groups)
      if (group.name == name) ranks.push_back(group.ranks);
    return ranks;
  };
  CHECK(ranks_of("tp") == std::vector<std::vector<int>>{{0, 1}, {2, 3}});
  CHECK(ranks_of("dp") == std::vector<std::vector<int>>{{0, 2}, {1, 3}});
  CHECK(ranks_of("pp").empty());
}

TEST_CASE("failure evidence: what the memory cgroup killed makes a signal an out-of-memory", "[diagnosis]") {
  FailureEvidence evidence;
  evidence.forget({.dp = 2});
  for (const int rank : {0, 1}) evidence.saw({.rank = rank, .node = rank});
  evidence.ended(1, {.rank = 1, .pid = 7, .signaled = true, .code = 9, .cause = "signal 9 (SIGKILL)"});
  CHECK(judge(evidence.make({}, 1)).kind == FailureKind::kSignal);
  evidence.killed_for_memory(1, {1, {}});
  CHECK(judge(evidence.make({}, 1)).kind == FailureKind::kOutOfMemory);
}
