#include "llmtrain/core/exit_code.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("exit codes: the interface of DESIGN is frozen", "[core]") {
  CHECK(to_int(ExitCode::kDone) == 0);
  CHECK(to_int(ExitCode::kDifferent) == 1);
  CHECK(to_int(ExitCode::kUsage) == 2);
  CHECK(to_int(ExitCode::kPreflight) == 64);
  CHECK(to_int(ExitCode::kNoCheckpoint) == 65);
  CHECK(to_int(ExitCode::kRestartBudget) == 66);
  CHECK(to_int(ExitCode::kNoProgress) == 67);
  CHECK(to_int(ExitCode::kHang) == 68);
  CHECK(to_int(ExitCode::kHeld) == 69);
  CHECK(to_int(ExitCode::kInternal) == 70);
  CHECK(to_int(ExitCode::kDiverged) == 71);
  CHECK(to_int(ExitCode::kStorage) == 72);
  CHECK(to_int(ExitCode::kData) == 73);
  CHECK(to_int(ExitCode::kPreempted) == 75);
  CHECK(to_int(ExitCode::kPreemptedUnsaved) == 76);
  CHECK(to_int(ExitCode::kCorruptionSuspected) == 77);
}

TEST_CASE("exit codes: every kind of error has one, never 0", "[core]") {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code)
    CHECK(exit_code_for(static_cast<ErrorCode>(code)) != ExitCode::kDone);
}
