#include "llmtrain/launch/failure_policy.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

FailureEvent event(FailureKind kind, std::int64_t last_step, std::int64_t at_s = 0) {
  return {.kind = kind, .at = Instant{at_s * 1000}, .last_step = last_step};
}

FailureDecision first(const OnFailureSpec& table, const FailureEvent& what) {
  return FailurePolicy({.on_failure = table}).decide(what);
}

}  // namespace

TEST_CASE("failure policy: by default everything restarts, but for data and divergence", "[launch]") {
  FailurePolicy policy({.max_restarts = 100});
  std::int64_t step = 0;
  for (int kind = 0; kind <= static_cast<int>(FailureKind::kUnknown); ++kind) {
    const auto decision = policy.decide(event(static_cast<FailureKind>(kind), ++step));
    CHECK(decision.action == FailureAction::kRestart);
    CHECK(decision.rollback == 0);
    CHECK(decision.num_restarts == kind + 1);
  }
  for (const ExitCode code : {ExitCode::kData, ExitCode::kDiverged, ExitCode::kStorage}) {
    FailureEvent final_end = event(FailureKind::kExit, 3);
    final_end.final_code = code;
    CHECK(first({}, final_end).action == FailureAction::kStop);
    CHECK(first({}, final_end).code == code);
  }
}

TEST_CASE("failure policy: every class has its own entry and its own code", "[launch]") {
  struct Row {
    FailureAction OnFailureSpec::*entry;
    FailureKind kind;
    ExitCode code;
  };
  const Row rows[] = {
      {&OnFailureSpec::crash, FailureKind::kExit, ExitCode::kRestartBudget},
      {&OnFailureSpec::crash, FailureKind::kSignal, ExitCode::kRestartBudget},
      {&OnFailureSpec::crash, FailureKind::kDeterministicCrash, ExitCode::kRestartBudget},
      {&OnFailureSpec::node_lost, FailureKind::kNodeLost, ExitCode::kRestartBudget},
      {&OnFailureSpec::hang, FailureKind::kHangCompute, ExitCode::kHang},
      {&OnFailureSpec::hang, FailureKind::kMissingCall, ExitCode::kHang},
      {&OnFailureSpec::oom, FailureKind::kOutOfMemory, ExitCode::kRestartBudget},
      {&OnFailureSpec::stopped_worker, FailureKind::kStopped, ExitCode::kHang},
      {&OnFailureSpec::transport, FailureKind::kTransport, ExitCode::kHang},
  };
  for (const Row& row : rows) {
    OnFailureSpec table;
    table.*row.entry = FailureAction::kStop;
    const FailureDecision stopped = first(table, event(row.kind, 3));
    CHECK(stopped.action == FailureAction::kStop);
    CHECK(stopped.code == row.code);
    CHECK(stopped.reason.find("resilience.on_failure.") != std::string::npos);
    table.*row.entry = FailureAction::kRestartExcludingNode;
    CHECK(first(table, event(row.kind, 3)).action == FailureAction::kRestartExcludingNode);
  }
  OnFailureSpec table;
  table.hang = FailureAction::kStop;
  CHECK(first(table, event(FailureKind::kUnknown, 3)).action == FailureAction::kRestart);
  CHECK(first(table, {.kind = FailureKind::kUnknown, .hung = true}).action == FailureAction::kStop);
  table.data = FailureAction::kRestart;
  CHECK(first(table, {.kind = FailureKind::kExit, .final_code = ExitCode::kData}).action ==
        FailureAction::kRestart);
}

TEST_CASE("failure policy: the second failure at one step goes one checkpoint further back", "[launch]") {
  FailurePolicy policy({});
  CHECK(policy.crashes_at(8) == 1);
  CHECK(policy.decide(event(FailureKind::kExit, 8)).rollback == 0);
  CHECK(policy.crashes_at(8) == 2);
  const FailureDecision second = policy.decide(event(FailureKind::kExit, 8));
  CHECK(second.rollback == 1);
  CHECK(second.in_a_row == 2);
  CHECK(policy.decide(event(FailureKind::kExit, 9)).rollback == 0);  // progress
}

TEST_CASE("failure policy: a checkpoint that cannot be the reason is kept", "[launch]") {
  for (const FailureKind kind :
       {FailureKind::kNodeLost, FailureKind::kTransport, FailureKind::kStopped, FailureKind::kOutOfMemory}) {
    FailurePolicy policy({});
    policy.decide(event(FailureKind::kExit, 8));
    CHECK(policy.decide(event(kind, 8)).rollback == 0);
  }
  FailurePolicy policy({});
  policy.decide(event(FailureKind::kExit, 8));
  FailureEvent in_rendezvous = event(FailureKind::kSignal, 8);
  in_rendezvous.before_load = true;
  CHECK(policy.decide(in_rendezvous).rollback == 0);
  CHECK(policy.decide(event(FailureKind::kSignal, 8)).rollback == 1);  // while it was read
}

TEST_CASE("failure policy: a crash that comes back each time ends with 67, a hang with 68", "[launch]") {
  for (const auto& [kind, code] : {std::pair{FailureKind::kExit, ExitCode::kNoProgress},
                                   std::pair{FailureKind::kDeterministicCrash, ExitCode::kNoProgress},
                                   std::pair{FailureKind::kStopped, ExitCode::kHang}}) {
    FailurePolicy policy({.max_restarts = 100, .no_progress_limit = 3});
    for (int i = 0; i < 3; ++i) CHECK(policy.decide(event(kind, 6)).action != FailureAction::kStop);
    const FailureDecision last = policy.decide(event(kind, 6));
    CHECK(last.action == FailureAction::kStop);
    CHECK(last.code == code);
    CHECK(last.num_restarts == 3);
  }
}

TEST_CASE("failure policy: who leads next goes on with the same budget", "[launch]") {
  FailurePolicy before({.max_restarts = 3, .restart_window = Milliseconds{10'000}});
  FailureEvent first = event(FailureKind::kExit, 6);
  first.at = Instant{1'000};
  before.decide(first);
  first.at = Instant{8'000};
  before.decide(first);
  const RestartHistory history = before.history(Instant{9'000});
  CHECK(history == RestartHistory{{Milliseconds{8'000}, Milliseconds{1'000}}, 6, 2});

  FailurePolicy policy({.max_restarts = 3, .restart_window = Milliseconds{10'000}});
  policy.take_over(Instant{500'000}, history);  // on a clock of its own
  CHECK(policy.crashes_at(6) == 3);
  CHECK(policy.crashes_at(7) == 1);
  CHECK(policy.leader_lost(Instant{501'000}).num_restarts == 3);
  CHECK(policy.leader_lost(Instant{501'500}).code == ExitCode::kRestartBudget);
  CHECK(policy.leader_lost(Instant{503'000}).action == FailureAction::kRestart);  // one is out of the window
}

TEST_CASE("failure policy: what does not fit into memory is tried once more", "[launch]") {
  FailurePolicy policy({.max_restarts = 100, .no_progress_limit = 50});
  CHECK(policy.decide(event(FailureKind::kOutOfMemory, 6)).action == FailureAction::kRestart);
  CHECK(policy.decide(event(FailureKind::kOutOfMemory, 7)).action ==
        FailureAction::kRestart);  // a step further
  CHECK(policy.decide(event(FailureKind::kExit, 7)).action == FailureAction::kRestart);
  CHECK(policy.decide(event(FailureKind::kOutOfMemory, 7)).action ==
        FailureAction::kRestart);  // not in a row
  const FailureDecision last = policy.decide(event(FailureKind::kOutOfMemory, 7));
  CHECK(last.action == FailureAction::kStop);
  CHECK(last.code == ExitCode::kNoProgress);
  CHECK(last.reason.find("killed for lack of memory 2 times in a row") != std::string::npos);
}

TEST_CASE("failure policy: restarts are counted in a window of time", "[launch]") {
  FailurePolicy policy({.max_restarts = 2, .restart_window = Milliseconds(60'000)});
  CHECK(policy.decide(event(FailureKind::kSignal, 1, 0)).num_restarts == 1);
  CHECK(policy.decide(event(FailureKind::kSignal, 2, 50)).num_restarts == 2);
  CHECK(policy.decide(event(FailureKind::kSignal, 3, 61)).num_restarts == 2);  // the first one is long ago
  const FailureDecision last = policy.decide(event(FailureKind::kSignal, 4, 62));
  CHECK(last.action == FailureAction::kStop);
  CHECK(last.code == ExitCode::kRestartBudget);

  FailurePolicy whole({.max_restarts = 2});
  whole.decide(event(FailureKind::kSignal, 1, 0));
  whole.decide(event(FailureKind::kSignal, 2, 100'000));
  CHECK(whole.decide(event(FailureKind::kSignal, 3, 1'000'000)).action == FailureAction::kStop);
}
