#include <sys/resource.h>

#include "llmtrain/checkpoint/scan.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Lowers the file-size limit of this process for a while.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &lowered) == 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("storage: a write that fails midway on one rank leaves nothing behind (C13)", "[checkpoint]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const std::string checkpoints = directory / "checkpoints";
  REQUIRE(save(*files, target_of(checkpoints, 5), make_sample(), make_state(5)));

  Sample large;
  large.add("model.a", DType::kFp32, {50'000}, 1);
  large.add("model.b", DType::kFp32, {50'000}, 2);
  SaveTarget target = target_of(checkpoints, 10);
  REQUIRE(write_shards(*files, target, shards_of(large, 0, 2)));
  target.rank = 1;
  {
    const FileSizeLimit limit(100'000);
    const auto failed = write_shards(*files, target, shards_of(large, 1, 2));  // the signal must not end us
    REQUIRE(!failed);
    INFO(to_string(failed.error()));
    CHECK(failed.error().code == ErrorCode::kStorage);
    for (const char* word : {"EFBIG", "weights-00001-of-00002.safetensors", "200000 bytes", "ulimit -f"})
      CHECK(to_string(failed.error()).find(word) != std::string::npos);
  }
  CHECK(!files->info(checkpoints + "/.step-00000010.e0.tmp/weights-00001-of-00002.safetensors").value());
  const auto selection = find_newest(*files, checkpoints, VerifyDepth::kFull);
  CHECK(selection.value().chosen->step == 5);
  CHECK(selection.value().rejected.empty());
  CHECK(files->info(checkpoints + "/.step-00000010.e0.tmp").value());  // with the other rank's file
  REQUIRE(discard(*files, target));
  CHECK_FALSE(files->info(checkpoints + "/.step-00000010.e0.tmp").value());
  CHECK(discard(*files, target));  // nothing is there
  CHECK(discard(*files, target_of(checkpoints, 5)));
  CHECK(find_newest(*files, checkpoints, VerifyDepth::kFull).value().chosen->step == 5);
  CHECK(save(*files, target_of(checkpoints, 10), large, make_state(10)));  // a later try succeeds
  CHECK(find_newest(*files, checkpoints, VerifyDepth::kFull).value().chosen->step == 10);
}

TEST_CASE("storage: a full disk is an error with path, bytes and what to do", "[core]") {
  const auto files = make_posix_filesystem();
  auto file = files->create("/dev/full");
  REQUIRE(file);
  const Status status = (*file)->append(std::as_bytes(std::span("12345678", 8)));
  REQUIRE(!status);
  CHECK(status.error().code == ErrorCode::kStorage);
  CHECK(status.error().message ==
        "cannot write 8 bytes at offset 0 of /dev/full: No space left on device (ENOSPC)");
  CHECK(!status.error().hint.empty());
}

TEST_CASE("storage: space is tested before anything is written", "[checkpoint]") {
  MemoryFileSystem files;
  REQUIRE(files.make_directory("checkpoints"));
  files.set_free_space(100);
  const auto records = write_shards(files, target_of("checkpoints", 5), shards_of(make_sample(), 0, 2));
  REQUIRE(!records);
  CHECK(records.error().code == ErrorCode::kStorage);
  CHECK(records.error().message.find("bytes are needed and 100 are free") != std::string::npos);
  CHECK(files.list("checkpoints").value().empty());
  files.set_free_space(10'000);
  CHECK(!write_shards(
      files, target_of("checkpoints", 5), shards_of(make_sample(), 0, 2), 20'000));  // all ranks together
}

TEST_CASE("storage: something in the way of the directory is named", "[checkpoint]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  REQUIRE(files->create(directory / "checkpoints"));
  const auto records =
      write_shards(*files, target_of(directory / "checkpoints", 5), shards_of(make_sample(), 0, 2));
  REQUIRE(!records);
  CHECK(records.error().message.find("is in the way") != std::string::npos);
}
