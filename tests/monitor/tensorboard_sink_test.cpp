#include "llmtrain/monitor/tensorboard_sink.hpp"

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include <unistd.h>

#include "src/monitor/tensorboard_records.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
namespace fs = std::filesystem;

namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct TempDir {
  fs::path path = fs::temp_directory_path() / ("llmtrain tensorboard " + std::to_string(::getpid()));
  TempDir() { fs::create_directories(path); }
  ~TempDir() { fs::remove_all(path); }
};

}  // namespace

TEST_CASE("tensorboard: records have the bytes that the reference writer makes", "[monitor]") {
  CHECK(hex(tfrecord(version_event(1.0))) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  CHECK(hex(tfrecord(scalars_event(2.0, 7, {{"loss", 1.5f}}))) ==
        "1a00000000000000129bd82d09000000000000004010072a0d0a0b0a046c6f7373150000c03f1b484874");
}

TEST_CASE("tensorboard: a run makes one file; a second process makes a later one", "[monitor]") {
  TempDir dir;
  const auto first = TensorBoardSink::open(dir.path / "tb", 1764500000.9);
  const auto second = TensorBoardSink::open(dir.path / "tb", 1764500000.9);
  REQUIRE(first);
  REQUIRE(second);
  CHECK((*first)->path() < (*second)->path());
  CHECK((*first)->path().find("/events.out.tfevents.1764500000.") != std::string::npos);
}

TEST_CASE("tensorboard: known scalars are written, unknown ones leave no point", "[monitor]") {
  TempDir dir;
  auto sink = TensorBoardSink::open(dir.path / "tb", 1.0);
  REQUIRE(sink);
  const std::string head = tfrecord(version_event(1.0));
  CHECK(content((*sink)->path()) == head);
  StepReport report;
  report.step = 4;
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.grad_norm = 0.5;
  report.lr = 0.25;
  (*sink)->on({2.0, 0, RunStarted{"r", 1, 3, 10, "", 1, 1, ""}});
  (*sink)->on({3.0, 0, report});
  (*sink)->on({4.0, 0, EvalReport{4, 2.5, 100}});
  (*sink)->on({5.0, 0, EvalReport{4, std::numeric_limits<double>::infinity(), 100}});
  (*sink)->on({6.0, 0, StopRequested{"SIGTERM"}});
  CHECK(hex(content((*sink)->path())) ==
        hex(head + tfrecord(restart_event(2.0, 4)) +
            tfrecord(scalars_event(3.0, 4, {{"train/grad_norm", 0.5f}, {"train/lr", 0.25f}})) +
            tfrecord(scalars_event(4.0, 4, {{"eval/loss", 2.5f}}))));
  CHECK_FALSE((*sink)->first_failure());
}

TEST_CASE("tensorboard: half a record of a full disk is cut off", "[monitor]") {
  TempDir dir;
  auto sink = TensorBoardSink::open(dir.path / "tb", 1.0);
  REQUIRE(sink);
  std::ofstream((*sink)->path(), std::ios::app | std::ios::binary) << "half";
  (*sink)->on({4.0, 0, EvalReport{4, 2.5, 100}});
  CHECK(content((*sink)->path()) ==
        tfrecord(version_event(1.0)) + tfrecord(scalars_event(4.0, 4, {{"eval/loss", 2.5f}})));
}

TEST_CASE("tensorboard: a directory that cannot be made is an error that names it", "[monitor]") {
  TempDir dir;
  const auto sink = TensorBoardSink::open(dir.path / "no" / "tb", 1.0);
  REQUIRE_FALSE(sink);
  CHECK(sink.error().code == ErrorCode::kStorage);
  CHECK(sink.error().message.find("no/tb") != std::string::npos);
}
