#include "llmtrain/report/liveness.hpp"

#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "llmtrain/core/unique_fd.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

TEST_CASE("liveness: the kernel's table names the file of a held lock", "[report]") {
  const std::string table =
      "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n"
      "2: FLOCK  ADVISORY  READ  11 08:01:78 0 EOF\n"
      "3: FLOCK  ADVISORY  WRITE 12 fe:00:5473637 0 EOF\n"
      "3: -> FLOCK  ADVISORY  WRITE 13 08:01:79 0 EOF\n";
  CHECK(holds_lock(table, 0xfe, 0, 5473637));
  CHECK_FALSE(holds_lock(table, 0xfe, 1, 5473637));
  CHECK_FALSE(holds_lock(table, 0xfe, 0, 547363));
  CHECK_FALSE(holds_lock(table, 8, 1, 77));
  CHECK_FALSE(holds_lock(table, 8, 1, 78));
  CHECK_FALSE(holds_lock(table, 8, 1, 79));
  CHECK_FALSE(holds_lock("", 0, 0, 0));
}

TEST_CASE("liveness: a lock is seen while it is held, and looking does not take it", "[report]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "lock";
  CHECK(look_at_lock(path) == LockState::kFree);
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  REQUIRE(fd.valid());
  if (look_at_lock(path) == LockState::kUnknown) return;  // a system without the table
  CHECK(look_at_lock(path) == LockState::kFree);
  REQUIRE(flock(fd.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(look_at_lock(path) == LockState::kHeld);
  REQUIRE(flock(fd.get(), LOCK_UN) == 0);
  CHECK(look_at_lock(path) == LockState::kFree);
}
