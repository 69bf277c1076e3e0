#include "llmtrain/train/faults.hpp"

#include <csignal>
#include <functional>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/train/error_file.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;

namespace {

FaultSpec thrower() {
  FaultSpec fault;
  fault.kind = FaultKind::kThrow;
  fault.rank = 1;
  fault.step = 7;
  fault.point = "reduce";
  return fault;
}

// How a process ends in which the fault fires.
int status_after(const FaultSpec& fault) {
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : {SIGSEGV, SIGABRT}) ::signal(signal, SIG_DFL);  // not Catch2's
    FaultInjector({fault}, 1, 0).at("reduce", 7);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("faults: a process ends as it was told to", "[train]") {
  FaultSpec fault = thrower();
  fault.kind = FaultKind::kExit;
  fault.code = 43;
  const int left = status_after(fault);
  CHECK(WIFEXITED(left));
  CHECK(WEXITSTATUS(left) == 43);
  for (const auto& [kind, signal] : {std::pair(FaultKind::kKill, SIGKILL),
                                     std::pair(FaultKind::kSegv, SIGSEGV),
                                     std::pair(FaultKind::kAbort, SIGABRT)}) {
    fault.kind = kind;
    const int status = status_after(fault);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signal);
  }
}

TEST_CASE("faults: memory is taken up to the bound, which is then said", "[train]") {
  FaultSpec fault = thrower();
  fault.kind = FaultKind::kOom;
  fault.mib = 16;
  const pid_t pid = ::fork();  // it offers itself to the kernel
  REQUIRE(pid >= 0);
  if (pid == 0) {
    try {
      FaultInjector({fault}, 1, 0).at("reduce", 7);
    } catch (const InjectedFault&) {
      ::_exit(7);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("faults: the nth write of a save fails, once", "[train]") {
  FaultSpec fault;
  fault.kind = FaultKind::kIo;
  fault.step = 5;
  fault.nth = 2;
  fault.error = FaultErrno::kEdquot;
  const test::TemporaryDirectory directory;
  const auto write = [&](FileSystem& files) { return write_file_durably(files, directory / "x", "abc"); };
  const auto files = FaultInjector({fault}, 1, 0).filesystem(5);
  CHECK(write(*files).ok());
  const Status failed = write(*files);
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().code == ErrorCode::kStorage);
  CHECK_THAT(failed.error().message, Catch::Matchers::Contains("quota exceeded"));
  CHECK(write(*files).ok());
  const auto others = FaultInjector({fault}, 1, 0).filesystem(6);
  for (int i = 0; i < 3; ++i) CHECK(write(*others).ok());
}

TEST_CASE("faults: collectives err only where a hook for this rank asks for it", "[train]") {
  FaultSpec fault = thrower();
  fault.kind = FaultKind::kSkipCollective;
  CHECK(FaultInjector({fault}, 0, 0).call_faults() == nullptr);
  CHECK(FaultInjector({thrower()}, 1, 0).call_faults() == nullptr);
  FaultInjector faults({fault}, 1, 0);
  REQUIRE(faults.call_faults() != nullptr);
  CHECK(faults.call_faults()->take() == CallFaults::Kind::kNone);
  faults.at("reduce", 7);
  CHECK(faults.call_faults()->take() == CallFaults::Kind::kSkip);
  CHECK(faults.call_faults()->take() == CallFaults::Kind::kNone);
}

TEST_CASE("error file: what torchelastic's readers look for is there", "[train]") {
  const test::TemporaryDirectory directory;
  const std::string path = directory / "error.json";
  write_error_file(path, {.type = "CommError", .text = "a \"b\" \xFF", .code = 80, .trace = {}});
  const auto files = make_posix_filesystem();
  const std::string text = read_file(*files, path, 4096).value();
  CHECK_THAT(text, Catch::Matchers::Contains("\"message\": \"CommError: a \\\"b\\\""));
  CHECK_THAT(text, Catch::Matchers::Contains("\"errorCode\": 80"));
  CHECK_THAT(text, Catch::Matchers::Contains("\"py_callstack\": \"\""));
  CHECK_THAT(text, Catch::Matchers::Contains("\"timestamp\": \"1"));
  write_error_file("", {.type = "x", .text = "y", .code = 1, .trace = {}});  // nobody wants it
}

TEST_CASE("faults: a hook fires at its rank, step, point and incarnation only", "[train]") {
  CHECK_THROWS_AS(FaultInjector({thrower()}, 1, 0).at("reduce", 7), InjectedFault);
  CHECK_NOTHROW(FaultInjector({thrower()}, 0, 0).at("reduce", 7));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 1).at("reduce", 7));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 0).at("reduce", 6));
  CHECK_NOTHROW(FaultInjector({thrower()}, 1, 0).at("backward", 7));
}

TEST_CASE("faults: -1 matches any rank and any incarnation, `each: step` any step", "[train]") {
  FaultSpec fault = thrower();
  fault.rank = -1;
  fault.incarnation = -1;
  fault.each = FaultEach::kStep;
  CHECK_THROWS_AS(FaultInjector({fault}, 3, 9).at("reduce", 123), InjectedFault);
}

TEST_CASE("faults: nan is a question, not an act", "[train]") {
  FaultSpec fault = thrower();
  fault.kind = FaultKind::kNan;
  FaultInjector faults({fault}, 1, 0);
  CHECK_NOTHROW(faults.at("reduce", 7));
  CHECK(faults.wants_nan("reduce", 7));
  CHECK_FALSE(faults.wants_nan("reduce", 8));
}

TEST_CASE("faults: jitter is nothing without a hook for this rank and incarnation", "[train]") {
  FaultSpec fault;
  fault.kind = FaultKind::kJitter;
  fault.rank = 1;
  fault.ms = 1;
  CHECK(FaultInjector({}, 1, 0).jitter() == nullptr);
  CHECK(FaultInjector({fault}, 0, 0).jitter() == nullptr);
  CHECK(FaultInjector({fault}, 1, 1).jitter() == nullptr);
  const auto jitter = FaultInjector({fault}, 1, 0).jitter();
  REQUIRE(jitter != nullptr);
  for (int i = 0; i < 100; ++i) jitter();
  CHECK_NOTHROW(FaultInjector({fault}, 1, 0).at("step", 0));
}
