#include "llmtrain/launch/failure_policy.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using std::chrono::milliseconds;

namespace {

FailurePolicy made(const PolicyOptions& options) {
  auto policy = FailurePolicy::make(options);
  REQUIRE(policy.ok());
  return std::move(policy).value();
}

FailureEvent event(FailureKind kind, std::int64_t last_step, std::int64_t at_s = 0) {
  return {.kind = kind, .at = milliseconds(at_s * 1000), .last_step = last_step};
}

}  // namespace

TEST_CASE("failure policy: the defaults", "[launch]") {
  FailurePolicy policy = made({});
  CHECK(policy.decide(event(FailureKind::kSignal, 3)).action == FailureAction::kRestart);
  CHECK(policy.decide(event(FailureKind::kNodeLost, 5)).action == FailureAction::kReplaceNode);
  CHECK(policy.decide(event(FailureKind::kStopped, 7)).num_restarts == 3);
}

TEST_CASE("failure policy: out of memory twice stops the run", "[launch]") {
  FailurePolicy policy = made({});
  CHECK(policy.decide(event(FailureKind::kOutOfMemory, 3)).action == FailureAction::kRestart);
  const FailureDecision second = policy.decide(event(FailureKind::kOutOfMemory, 9));
  CHECK(second.action == FailureAction::kStop);
  CHECK(second.code == ExitCode::kRestartBudget);
  CHECK(second.reason == "out_of_memory for the 2. time: resilience.on_failure allows 1");
}

TEST_CASE("failure policy: the second crash at one step goes one checkpoint further back", "[launch]") {
  FailurePolicy policy = made({});
  CHECK(policy.crashes_at(8) == 1);
  CHECK(policy.decide(event(FailureKind::kExit, 8)).action == FailureAction::kRestart);
  CHECK(policy.crashes_at(8) == 2);
  const FailureDecision second = policy.decide(event(FailureKind::kExit, 8));
  CHECK(second.action == FailureAction::kRollback);
  CHECK(second.reason == "failure 2 in a row after step 8: from one checkpoint further back");
  CHECK(policy.decide(event(FailureKind::kExit, 9)).action == FailureAction::kRestart);  // progress
}

TEST_CASE("failure policy: a crash that comes back each time ends with 67, a hang with 68", "[launch]") {
  for (const auto& [kind, code] : {std::pair{FailureKind::kExit, ExitCode::kNoProgress},
                                   std::pair{FailureKind::kStopped, ExitCode::kHang}}) {
    FailurePolicy policy = made({.max_restarts = 100, .no_progress_limit = 3});
    for (int i = 0; i < 3; ++i) CHECK(policy.decide(event(kind, 6)).action != FailureAction::kStop);
    const FailureDecision last = policy.decide(event(kind, 6));
    CHECK(last.action == FailureAction::kStop);
    CHECK(last.code == code);
    CHECK(last.num_restarts == 3);
  }
  FailurePolicy policy = made({});
  for (int i = 0; i < 2; ++i)
    CHECK(policy.decide(event(FailureKind::kDeterministicCrash, 6)).action == FailureAction::kRollback);
  CHECK(policy.decide(event(FailureKind::kDeterministicCrash, 6)).code == ExitCode::kNoProgress);
}

TEST_CASE("failure policy: restarts are counted in a window of time", "[launch]") {
  FailurePolicy policy = made({.max_restarts = 2, .restart_window = milliseconds(60'000)});
  CHECK(policy.decide(event(FailureKind::kSignal, 1, 0)).num_restarts == 1);
  CHECK(policy.decide(event(FailureKind::kSignal, 2, 50)).num_restarts == 2);
  CHECK(policy.decide(event(FailureKind::kSignal, 3, 61)).num_restarts == 2);  // the first one is long ago
  const FailureDecision last = policy.decide(event(FailureKind::kSignal, 4, 62));
  CHECK(last.action == FailureAction::kStop);
  CHECK(last.code == ExitCode::kRestartBudget);

  FailurePolicy whole = made({.max_restarts = 2});
  whole.decide(event(FailureKind::kSignal, 1, 0));
  whole.decide(event(FailureKind::kSignal, 2, 100'000));
  CHECK(whole.decide(event(FailureKind::kSignal, 3, 1'000'000)).action == FailureAction::kStop);
}

TEST_CASE("failure policy: the user's table", "[launch]") {
  FailurePolicy policy =
      made({.on_failure = {{"signal", "stop"}, {"exit", "restart:2"}, {"transport", "rollback"}}});
  CHECK(policy.decide(event(FailureKind::kTransport, 1)).action == FailureAction::kRollback);
  CHECK(policy.decide(event(FailureKind::kExit, 2)).action == FailureAction::kRestart);
  CHECK(policy.decide(event(FailureKind::kExit, 3)).action == FailureAction::kRestart);
  CHECK(policy.decide(event(FailureKind::kExit, 4)).action == FailureAction::kStop);
  CHECK(policy.decide(event(FailureKind::kSignal, 5)).action == FailureAction::kStop);
}

TEST_CASE("failure policy: a table that is not understood is refused", "[launch]") {
  const auto refusal = [](const std::string& name, const std::string& text) {
    const auto policy = FailurePolicy::make({.on_failure = {{name, text}}});
    REQUIRE_FALSE(policy.ok());
    return policy.error().message;
  };
  CHECK(refusal("oom", "stop") == "resilience.on_failure: \"oom\" is no class of failure");
  CHECK(refusal("exit", "retry") == "resilience.on_failure.exit: \"retry\" is no action");
  for (const char* text :
       {"restart:", "restart:x", "restart:-1", "restart:1x", ":3", "", "restart:99999999999"})
    CHECK(refusal("exit", text) == "resilience.on_failure.exit: \"" + std::string(text) + "\" is no action");
}
