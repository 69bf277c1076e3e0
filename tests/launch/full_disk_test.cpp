#include <fstream>

#include <sys/mount.h>
#include <unistd.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/launch/run_lock.hpp"

#include "tests/launch/launched_job.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_directory.hpp"

// Run directories on a file system that takes nothing more.

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

void need_root() {
  if (geteuid() != 0) skip_executable("mounting a small file system is for root");
}

}  // namespace

TEST_CASE("run files: a full or read-only file system is found, and nothing on it is harmed", "[launch]") {
  need_root();
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const RunDir run(directory / "run");
  REQUIRE(make_run_directory(*files, run).ok());
  const std::string mount_point = run.root().string();
  const auto writable = [&] { return check_writable(*files, run); };

  CHECK(writable().ok());
  REQUIRE(mount("llmtrain-test", mount_point.c_str(), "tmpfs", 0, "size=32k") == 0);
  fs::create_directories(run.control());
  std::ofstream(run.metrics()) << "precious";
  const auto full = writable();
  CHECK_FALSE(full.ok());
  if (!full.ok()) {
    CHECK(exit_code_for(full.error().code) == ExitCode::kStorage);
    CHECK(full.error().message.find("No space left") != std::string::npos);
    CHECK(full.error().message.find(mount_point) != std::string::npos);
  }
  CHECK(*read_file(*files, run.metrics().string(), 100) == "precious");
  CHECK_FALSE(fs::exists(run.control() / "probe"));

  REQUIRE(mount(nullptr, mount_point.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
  const auto read_only = writable();
  CHECK_FALSE(read_only.ok());
  if (!read_only.ok()) CHECK(exit_code_for(read_only.error().code) == ExitCode::kStorage);
  const auto lock = RunLock::acquire((run.control() / "lock").string());
  CHECK_FALSE(lock.ok());
  if (!lock.ok()) CHECK(exit_code_for(lock.error().code) == ExitCode::kStorage);
  REQUIRE(umount(mount_point.c_str()) == 0);
}

TEST_CASE("launch: a full or read-only run directory ends with 72 before a worker starts", "[launch]") {
  need_root();
  LaunchedJob job;
  fs::create_directories(job.run_dir());
  const std::string point = job.run_dir().string();
  REQUIRE(mount("llmtrain-test", point.c_str(), "tmpfs", 0, "size=32k") == 0);
  std::ofstream(job.run_dir() / "precious") << "kept";
  const int full = job.run();
  const std::string said = job.console();
  mount(nullptr, point.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr);
  const int read_only = job.run();
  const std::string kept = slurp(job.run_dir() / "precious");
  const bool started = fs::exists(job.run_dir() / "logs");
  REQUIRE(umount(point.c_str()) == 0);
  CHECK(full == 72);
  CHECK(said.find("No space left") != std::string::npos);
  CHECK(read_only == 72);
  CHECK(kept == "kept");
  CHECK_FALSE(started);
}
