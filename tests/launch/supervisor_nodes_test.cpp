#include "llmtrain/launch/supervisor.hpp"

#include "tests/launch/supervisor_commands.hpp"
#include "tests/support/catch.hpp"

// A job on several nodes: nobody starts before all are there, and a node takes its ranks along.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr Instant kNow{1000};
const std::vector<int> kFirst = {0, 1};
const std::vector<int> kSecond = {2, 3};

SupervisorOptions two_nodes() {
  SupervisorOptions options;
  options.num_workers = 4;
  options.num_nodes = 2;
  options.join_timeout = Milliseconds{60'000};
  return options;
}

Supervisor running() {
  Supervisor supervisor(two_nodes());
  CHECK(supervisor.start(kNow).empty());
  CHECK(supervisor.node_ready(kNow, 0).empty());
  REQUIRE(find<StartWorkers>(supervisor.node_ready(kNow, 1)) != nullptr);
  return supervisor;
}

}  // namespace

TEST_CASE("supervisor: nothing starts before every node is ready", "[launch]") {
  Supervisor supervisor(two_nodes());
  CHECK(supervisor.start(kNow).empty());
  CHECK(supervisor.gathering());
  CHECK(supervisor.node_ready(kNow, 1).empty());
  CHECK(supervisor.node_lost(kNow, 1, kSecond).empty());  // charged to nobody: nothing ran
  CHECK(supervisor.node_ready(kNow, 0).empty());
  const auto start = supervisor.node_ready(kNow, 1);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->incarnation == 0);
  CHECK_FALSE(supervisor.gathering());
}

TEST_CASE("supervisor: a node that does not come ends the wait, and is named", "[launch]") {
  Supervisor supervisor(two_nodes());
  supervisor.start(kNow);
  supervisor.node_ready(kNow, 0);
  CHECK(supervisor.tick(kNow).empty());
  const auto end = supervisor.tick(kNow + Milliseconds{60'000});
  CHECK(finished(end) == ExitCode::kHang);
  CHECK(find<Finish>(end)->reason.find("node 1 did not come") != std::string::npos);
}

TEST_CASE("supervisor: a lost node is the cause, its ranks are gone at once, and one restart is charged",
          "[launch]") {
  auto supervisor = running();
  supervisor.step_finished(3);
  CHECK(find<KillWorkers>(supervisor.node_lost(kNow, 1, kSecond)) != nullptr);
  CHECK_FALSE(supervisor.alive(2));
  supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  const auto after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
  const auto* failed = find<IncarnationFailed>(after);
  REQUIRE(failed != nullptr);
  CHECK(failed->first_node == 1);
  CHECK(failed->first_rank == 2);
  CHECK(failed->num_restarts == 1);
  CHECK(find<StartWorkers>(after) == nullptr);  // it waits for the node, or for a spare

  CHECK(supervisor.gathering());
  const auto start = supervisor.node_ready(kNow, 1);
  REQUIRE(find<StartWorkers>(start) != nullptr);
  CHECK(find<StartWorkers>(start)->incarnation == 1);
}

TEST_CASE("supervisor: a peer that was lost first is explained by the node", "[launch]") {
  auto supervisor = running();
  CHECK(supervisor.worker_ended(kNow, {.rank = 0, .code = 80}).empty());
  CHECK(find<KillWorkers>(supervisor.node_lost(kNow, 1, kSecond)) != nullptr);
  const auto after = supervisor.worker_ended(kNow, {.rank = 1, .code = 80});
  CHECK(find<IncarnationFailed>(after)->first_node == 1);
}

TEST_CASE("supervisor: with its last node an incarnation is over at once", "[launch]") {
  auto supervisor = running();
  supervisor.node_lost(kNow, 1, kSecond);
  const auto after = supervisor.node_lost(kNow, 0, kFirst);
  CHECK(find<IncarnationFailed>(after) != nullptr);
  CHECK(supervisor.gathering());
}

TEST_CASE("supervisor: a node that goes when its workers have finished is no failure", "[launch]") {
  auto supervisor = running();
  for (const int rank : kSecond) supervisor.worker_ended(kNow, {.rank = rank});
  CHECK(supervisor.node_lost(kNow, 1, kSecond).empty());
  supervisor.worker_ended(kNow, {.rank = 0});
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1})) == ExitCode::kDone);
}

TEST_CASE("supervisor: a stop ends the wait for nodes", "[launch]") {
  auto options = two_nodes();
  options.committed_step = 5;
  Supervisor supervisor(options);
  supervisor.start(kNow);
  CHECK(finished(supervisor.stop_requested(kNow)) == ExitCode::kPreempted);
  CHECK(supervisor.node_ready(kNow, 0).empty());
  CHECK(supervisor.node_lost(kNow, 0, kFirst).empty());
}
