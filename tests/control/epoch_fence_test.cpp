#include "llmtrain/control/epoch_fence.hpp"

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;

namespace {

void put(FileSystem& files, const std::string& path) {
  REQUIRE(make_directories(files, parent_path(path)).ok());
  REQUIRE(write_file_durably(files, path, "{}").ok());
}

}  // namespace

TEST_CASE("epoch fence: only a newer epoch fences, and other files are none", "[control]") {
  test::MemoryFileSystem files;
  CHECK(check_not_fenced(files, "/run/control", 0).ok());  // one node: no such directory
  for (const char* name : {"epoch-3", "epoch-x", "epoch-99.tmp", "epoch-", "lease", "epoch--7", "epoch-10"})
    put(files, std::string("/run/control/") + name);
  CHECK(newest_epoch(files, "/run/control").value() == 10);
  CHECK(check_not_fenced(files, "/run/control", 10).ok());
  CHECK(check_not_fenced(files, "/run/control", 11).ok());
  const Status fenced = check_not_fenced(files, "/run/control", 9);
  REQUIRE_FALSE(fenced.ok());
  CHECK(fenced.error().code == ErrorCode::kHeld);
}

TEST_CASE("epoch fence: a save of an older epoch is not committed", "[control]") {
  test::MemoryFileSystem files;
  put(files, "/run/control/epoch-4");
  const SaveTarget target{.checkpoints_dir = "/run/checkpoints", .step = 5};
  const auto save = [&](std::int64_t epoch) {
    REQUIRE(write_shards(files, target, {}).ok());
    CommitRequest request;
    request.may_commit = [&files, epoch] { return check_not_fenced(files, "/run/control", epoch); };
    return commit(files, target, std::move(request));
  };
  const auto refused = save(3);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kHeld);
  for (const DirectoryEntry& entry : files.list("/run/checkpoints").value())
    CHECK(entry.name.starts_with('.'));  // what an unfinished save leaves
  CHECK(save(4).ok());
}

TEST_CASE("commit: its arrows are passed in order, and each can be the last", "[control]") {
  const std::vector<std::string> arrows = {"commit_manifest", "commit_rename", "commit_renamed"};
  test::MemoryFileSystem files;
  const SaveTarget target{.checkpoints_dir = "/run/checkpoints", .step = 5};
  REQUIRE(write_shards(files, target, {}).ok());
  std::vector<std::string> passed;
  CommitRequest request;
  request.on_arrow = [&](std::string_view arrow) {
    const bool committed = files.info("/run/checkpoints/step-00000005").value().has_value();
    CHECK(committed == (arrow == "commit_renamed"));
    passed.emplace_back(arrow);
  };
  REQUIRE(commit(files, target, std::move(request)).ok());
  CHECK(passed == arrows);
}
