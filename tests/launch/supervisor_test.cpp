#include "llmtrain/launch/supervisor.hpp"

#include "llmtrain/job/worker_exit.hpp"

#include "tests/launch/supervisor_commands.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr Instant kNow{1000};
constexpr int kSaved = to_int(WorkerExit::kStoppedSaved);
constexpr int kLost = to_int(WorkerExit::kLostPeer);

Supervisor started(const SupervisorOptions& options) {
  Supervisor supervisor(options);
  REQUIRE(find<StartWorkers>(supervisor.start(kNow)) != nullptr);
  return supervisor;
}

// Rank 0 dies of SIGKILL and the rest is killed; the commands that follow.
Commands crash_all(Supervisor& supervisor, int num_workers, Instant now = kNow) {
  const auto kill = supervisor.worker_ended(now, {.rank = 0, .signaled = true, .code = 9});
  if (num_workers == 1) return kill;
  CHECK(find<KillWorkers>(kill) != nullptr);
  Commands last;
  for (int rank = 1; rank < num_workers; ++rank)
    last = supervisor.worker_ended(now, {.rank = rank, .signaled = true, .code = 9});
  return last;
}

}  // namespace

TEST_CASE("supervisor: what every exit code of a worker means", "[launch]") {
  struct Row {
    int code;
    ExitClass kind;
  };
  const Row table[] = {{0, ExitClass::kFinished},
                       {1, ExitClass::kCrash},
                       {2, ExitClass::kFinal},
                       {64, ExitClass::kFinal},
                       {65, ExitClass::kFinal},
                       {68, ExitClass::kLostPeer},
                       {69, ExitClass::kFinal},
                       {70, ExitClass::kCrash},
                       {71, ExitClass::kFinal},
                       {72, ExitClass::kFinal},
                       {73, ExitClass::kFinal},
                       {77, ExitClass::kFinal},
                       {80, ExitClass::kLostPeer},
                       {81, ExitClass::kStoppedSaved},
                       {82, ExitClass::kStoppedUnsaved},
                       {127, ExitClass::kCrash}};
  for (const Row& row : table) CHECK(classify({.rank = 0, .signaled = false, .code = row.code}) == row.kind);
  for (const int signal : {2, 6, 9, 11, 15})
    CHECK(classify({.rank = 0, .signaled = true, .code = signal}) == ExitClass::kCrash);
}

TEST_CASE("supervisor: all workers end with 0", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  CHECK(supervisor.worker_ended(kNow, {.rank = 1}).empty());
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 0})) == ExitCode::kDone);
  CHECK(supervisor.done());
}

TEST_CASE("supervisor: one finished, the other never leaves", "[launch]") {
  auto supervisor = started({.num_workers = 2, .stop_grace = Milliseconds{500}});
  CHECK(supervisor.worker_ended(kNow, {.rank = 1}).empty());
  REQUIRE(supervisor.deadline() == kNow + Milliseconds{500});
  CHECK(find<KillWorkers>(supervisor.tick(*supervisor.deadline())) != nullptr);
  const auto after = supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  CHECK(find<StartWorkers>(after) != nullptr);  // a finished run is quickly finished again
}

TEST_CASE("supervisor: a killed worker restarts the job, and is named as the cause", "[launch]") {
  auto supervisor = started({.num_workers = 3});
  supervisor.step_finished(4);
  CHECK(find<KillWorkers>(supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9})) !=
        nullptr);
  // A peer that notices before it dies is a consequence.
  CHECK(supervisor.worker_ended(kNow, {.rank = 0, .code = kLost}).empty());
  const auto after = supervisor.worker_ended(kNow, {.rank = 2, .signaled = true, .code = 9});
  REQUIRE(find<IncarnationFailed>(after) != nullptr);
  CHECK(find<IncarnationFailed>(after)->first_rank == 1);
  CHECK(find<IncarnationFailed>(after)->num_restarts == 1);
  REQUIRE(find<StartWorkers>(after) != nullptr);  // at once: no back-off after progress
  CHECK(find<StartWorkers>(after)->incarnation == 1);
  CHECK(find<StartWorkers>(after)->rollback == 0);
}

TEST_CASE("supervisor: a run whose last step is committed is done, whatever falls over afterwards",
          "[launch]") {
  for (const std::int64_t committed : {19, 20}) {
    auto supervisor = started({.num_workers = 2, .total_steps = 20});
    supervisor.step_finished(20);
    supervisor.checkpoint_committed(committed);
    supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
    const auto after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
    if (committed == 20)
      CHECK(finished(after) == ExitCode::kDone);
    else
      CHECK(find<StartWorkers>(after) != nullptr);
  }
}

TEST_CASE("supervisor: a lost peer waits for the real cause", "[launch]") {
  auto supervisor = started({.num_workers = 3});
  CHECK(supervisor.worker_ended(kNow, {.rank = 0, .code = kLost}).empty());
  REQUIRE(supervisor.deadline() == kNow + SupervisorOptions{}.settle);
  SECTION("that comes") {
    CHECK(find<KillWorkers>(supervisor.worker_ended(kNow, {.rank = 2, .code = 70})) != nullptr);
    const auto after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
    CHECK(find<IncarnationFailed>(after)->first_rank == 2);
  }
  SECTION("that never comes: a hang") {
    CHECK(find<KillWorkers>(supervisor.tick(*supervisor.deadline())) != nullptr);
    supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
    const auto after = supervisor.worker_ended(kNow, {.rank = 2, .signaled = true, .code = 9});
    CHECK_FALSE(find<IncarnationFailed>(after)->first_rank.has_value());
    CHECK(find<IncarnationFailed>(after)->restarts);
  }
}

TEST_CASE("supervisor: spec, data and storage errors are never retried", "[launch]") {
  for (const ExitCode code : {ExitCode::kUsage,
                              ExitCode::kNoCheckpoint,
                              ExitCode::kDiverged,
                              ExitCode::kStorage,
                              ExitCode::kData,
                              ExitCode::kPreflight}) {
    auto supervisor = started({.num_workers = 2});
    supervisor.step_finished(10);
    CHECK(find<KillWorkers>(supervisor.worker_ended(kNow, {.rank = 1, .code = to_int(code)})) != nullptr);
    const auto after = supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
    CHECK(finished(after) == code);
    CHECK(find<StartWorkers>(after) == nullptr);
    CHECK(find<IncarnationFailed>(after)->first_rank == 1);
  }
}

TEST_CASE("supervisor: a verdict wins over a crash that was seen first", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  supervisor.worker_ended(kNow, {.rank = 1, .code = 70});
  const auto after = supervisor.worker_ended(kNow, {.rank = 0, .code = to_int(ExitCode::kData)});
  CHECK(finished(after) == ExitCode::kData);
  CHECK(find<IncarnationFailed>(after)->first_rank == 0);
}

TEST_CASE("supervisor: the budget counts restarts that made progress", "[launch]") {
  auto supervisor = started({.num_workers = 2, .max_restarts = 2});
  for (int restart = 1; restart <= 2; ++restart) {
    supervisor.step_finished(restart);
    CHECK(find<StartWorkers>(crash_all(supervisor, 2)) != nullptr);
  }
  supervisor.step_finished(3);
  CHECK(finished(crash_all(supervisor, 2)) == ExitCode::kRestartBudget);
}

TEST_CASE("supervisor: no progress ends the job, slows down, and goes one checkpoint further back",
          "[launch]") {
  auto supervisor = started({.num_workers = 1, .max_restarts = 100, .no_progress_limit = 3});
  supervisor.step_finished(7);
  supervisor.checkpoint_committed(5);
  CHECK(find<StartWorkers>(crash_all(supervisor, 1))->rollback == 0);

  supervisor.step_finished(6);  // replayed, not new
  CHECK(find<StartWorkers>(crash_all(supervisor, 1))->rollback == 1);

  const auto slow = crash_all(supervisor, 1);
  CHECK(find<StartWorkers>(slow) == nullptr);
  CHECK(find<IncarnationFailed>(slow)->delay == Milliseconds{100});
  CHECK(supervisor.tick(kNow).empty());
  CHECK(find<StartWorkers>(supervisor.tick(*supervisor.deadline()))->rollback == 1);

  const auto last = crash_all(supervisor, 1);
  CHECK(finished(last) == ExitCode::kNoProgress);
  CHECK(find<Finish>(last)->reason.find("last finished step 7") != std::string::npos);
}

TEST_CASE("supervisor: the pause before a start doubles, up to its limit", "[launch]") {
  auto supervisor = started({.num_workers = 1, .max_restarts = 100, .no_progress_limit = 100});
  for (const int pause : {0, 0, 100, 200, 400, 800, 1600, 3200, 6400, 10'000, 10'000}) {
    CHECK(find<IncarnationFailed>(crash_all(supervisor, 1))->delay == Milliseconds{pause});
    if (pause > 0) supervisor.tick(*supervisor.deadline());
  }
}

TEST_CASE("supervisor: restarts are counted within a window of time", "[launch]") {
  auto supervisor = started({.num_workers = 1, .max_restarts = 1, .restart_window = Milliseconds{60'000}});
  supervisor.step_finished(1);
  CHECK(find<StartWorkers>(crash_all(supervisor, 1, Instant{0})) != nullptr);
  supervisor.step_finished(2);
  CHECK(find<StartWorkers>(crash_all(supervisor, 1, Instant{61'000})) != nullptr);
  supervisor.step_finished(3);
  CHECK(finished(crash_all(supervisor, 1, Instant{62'000})) == ExitCode::kRestartBudget);
}

TEST_CASE("supervisor: the judged class of a failure decides what follows", "[launch]") {
  SupervisorOptions options{.num_workers = 1};
  options.on_failure.oom = FailureAction::kStop;
  FailureSigns seen;
  FailureKind kind = FailureKind::kSignal;
  options.judge = [&](const FailureSigns& signs) {
    seen = signs;
    return JudgedFailure{kind, 0};
  };
  auto supervisor = started(options);
  supervisor.step_finished(1);
  CHECK(find<StartWorkers>(crash_all(supervisor, 1)) != nullptr);
  CHECK(seen.first_rank == 0);
  kind = FailureKind::kOutOfMemory;
  const auto end = crash_all(supervisor, 1);
  CHECK_FALSE(find<IncarnationFailed>(end)->restarts);
  CHECK(finished(end) == ExitCode::kRestartBudget);
  CHECK(find<Finish>(end)->reason == "resilience.on_failure.oom is stop");
}

TEST_CASE("supervisor: data that cannot be read may be tried again where the table says so", "[launch]") {
  SupervisorOptions options{.num_workers = 1};
  options.on_failure.data = FailureAction::kRestart;
  auto supervisor = started(options);
  supervisor.step_finished(1);
  CHECK(find<StartWorkers>(supervisor.worker_ended(kNow, {.rank = 0, .code = 73})) != nullptr);
  CHECK(find<StartWorkers>(crash_all(supervisor, 1)) != nullptr);  // it does not stick
}

TEST_CASE("supervisor: hangs without progress end with their own code", "[launch]") {
  auto supervisor = started({.num_workers = 1, .no_progress_limit = 1});
  const auto hang = [&] {
    CHECK(find<KillWorkers>(supervisor.worker_stalled(kNow, 0)) != nullptr);
    return supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  };
  CHECK(find<StartWorkers>(hang()) != nullptr);
  CHECK(finished(hang()) == ExitCode::kHang);
}

TEST_CASE("supervisor: stop, saved", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  supervisor.step_finished(3);
  CHECK(find<RequestStop>(supervisor.stop_requested(kNow)) != nullptr);
  CHECK(supervisor.deadline() == kNow + SupervisorOptions{}.stop_grace);
  supervisor.step_finished(4);
  supervisor.checkpoint_committed(4);
  CHECK(supervisor.worker_ended(kNow, {.rank = 0, .code = kSaved}).empty());
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 1, .code = kSaved})) == ExitCode::kPreempted);
}

TEST_CASE("supervisor: workers that stop by themselves end the job in the same way", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  supervisor.step_finished(3);
  CHECK(supervisor.worker_ended(kNow, {.rank = 1, .code = kSaved}).empty());
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 0, .code = kSaved})) == ExitCode::kPreempted);
}

TEST_CASE("supervisor: the run ends while it is asked to stop", "[launch]") {
  auto supervisor = started({.num_workers = 1});
  supervisor.stop_requested(kNow);
  CHECK(finished(supervisor.worker_ended(kNow, {.rank = 0})) == ExitCode::kDone);
}

TEST_CASE("supervisor: a second request, or the end of the grace time, kills", "[launch]") {
  const bool committed = GENERATE(false, true);
  const bool hurried = GENERATE(false, true);
  auto supervisor = started({.num_workers = 2});
  supervisor.step_finished(3);
  if (committed) supervisor.checkpoint_committed(3);
  supervisor.stop_requested(kNow);
  const auto kill = hurried ? supervisor.stop_requested(kNow) : supervisor.tick(*supervisor.deadline());
  CHECK(find<KillWorkers>(kill) != nullptr);
  supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  const auto after = supervisor.worker_ended(kNow, {.rank = 1, .signaled = true, .code = 9});
  CHECK(finished(after) == (committed ? ExitCode::kPreempted : ExitCode::kPreemptedUnsaved));
}

TEST_CASE("supervisor: a failure while stopping is not retried; a failed save keeps its code", "[launch]") {
  auto supervisor = started({.num_workers = 1});
  supervisor.step_finished(3);
  supervisor.stop_requested(kNow);
  SECTION("crash") {
    CHECK(finished(crash_all(supervisor, 1)) == ExitCode::kPreemptedUnsaved);
  }
  SECTION("storage") {
    const auto after = supervisor.worker_ended(kNow, {.rank = 0, .code = to_int(ExitCode::kStorage)});
    CHECK(finished(after) == ExitCode::kStorage);
  }
}

TEST_CASE("supervisor: a stop during the back-off ends the job", "[launch]") {
  auto supervisor = started({.num_workers = 1, .committed_step = 5, .no_progress_limit = 10});
  for (int i = 0; i < 3; ++i) crash_all(supervisor, 1);
  REQUIRE(supervisor.deadline().has_value());
  CHECK(finished(supervisor.stop_requested(kNow)) == ExitCode::kPreempted);  // step 5 is committed
}

TEST_CASE("supervisor: a worker that cannot be killed is reported, not awaited for ever", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  supervisor.worker_ended(kNow, {.rank = 0, .code = 70});
  const auto after = supervisor.tick(*supervisor.deadline());
  CHECK(find<IncarnationFailed>(after)->unkillable == std::vector<int>{1});
  CHECK(finished(after) == ExitCode::kPreflight);
  CHECK(find<Finish>(after)->reason.find("rank 1 did not die within 30 s of SIGKILL") != std::string::npos);
}

TEST_CASE("supervisor: a stop is a stop, even if a worker cannot be killed", "[launch]") {
  auto supervisor = started({.num_workers = 2});
  supervisor.step_finished(4);
  supervisor.checkpoint_committed(4);
  supervisor.stop_requested(kNow);
  CHECK(find<KillWorkers>(supervisor.tick(*supervisor.deadline())) != nullptr);
  const auto after = supervisor.tick(*supervisor.deadline());
  CHECK(find<IncarnationFailed>(after)->unkillable == std::vector<int>{0, 1});
  CHECK(finished(after) == ExitCode::kPreempted);
}

TEST_CASE("supervisor: abort kills what runs and keeps its code", "[launch]") {
  auto supervisor = started({.num_workers = 1});
  CHECK(find<KillWorkers>(supervisor.abort(kNow, ExitCode::kStorage, "log")) != nullptr);
  const auto after = supervisor.worker_ended(kNow, {.rank = 0, .signaled = true, .code = 9});
  CHECK(finished(after) == ExitCode::kStorage);
  CHECK(supervisor.abort(kNow, ExitCode::kInternal, "late").empty());
}
