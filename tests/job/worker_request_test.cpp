#include "llmtrain/job/worker_request.hpp"

#include <fmt/format.h>

#include "llmtrain/job/worker_exit.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

WorkerRequest sample() {
  return {.rank = 3,
          .local_rank = 1,
          .world_size = 4,
          .node = 1,
          .incarnation = 7,
          .epoch = 1LL << 40,
          .spec_yaml = "version: 1\nrun: {name: \"a \\\"b\\\"\"}\n",
          .run_dir = "runs/with space",
          .resume_path = "runs/x/checkpoints/step-00000005",
          .engine_path = "/opt/libllmtrain_engine_cpu.so",
          .control_fd = 5,
          .black_box_fd = 6,
          .shm_fd = -1,
          .store_fd = 9,
          .address = "10.0.0.2",
          .error_file = "/tmp/error \"3\".json"};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("worker request: what is written is what is read", "[job]") {
  const auto read = worker_request_from_json(to_json(sample()));
  REQUIRE(read.ok());
  CHECK(*read == sample());
}

TEST_CASE("worker request: damaged text is an error that says what is wrong", "[job]") {
  const std::string good = to_json(sample());
  CHECK_FALSE(worker_request_from_json("").ok());
  CHECK_FALSE(worker_request_from_json("[]").ok());
  CHECK_FALSE(worker_request_from_json(good.substr(0, good.size() / 2)).ok());
  CHECK(worker_request_from_json(replaced(good, "\"shm_fd\"", "\"shm\"")).error().message ==
        "worker request: the key `shm_fd` is missing");
  for (const char* key : {"epoch", "store_fd", "address", "error_file"})
    CHECK_FALSE(worker_request_from_json(replaced(good, fmt::format("\"{}\"", key), "\"other\"")).ok());
  CHECK(worker_request_from_json(replaced(good, "\"rank\":3", "\"rank\":\"3\"")).error().message ==
        "worker request: the key `rank` has the wrong type");
  CHECK(worker_request_from_json(replaced(good, "\"rank\":3", "\"rank\":4")).error().message ==
        "worker request: rank 4 is outside of a world of 4");
  CHECK(worker_request_from_json(replaced(good, "{", "{\"extra\":1,")).error().message ==
        "worker request: a key is unknown");
}

TEST_CASE("worker exits: their numbers are apart from every other exit code", "[job]") {
  for (const WorkerExit code :
       {WorkerExit::kLostPeer, WorkerExit::kStoppedSaved, WorkerExit::kStoppedUnsaved}) {
    CHECK(to_int(code) > to_int(ExitCode::kCorruptionSuspected));
    CHECK(to_int(code) < 126);  // from there on a shell means "cannot execute" and signals
    CHECK_FALSE(describe_worker_exit(to_int(code)).empty());
  }
}
