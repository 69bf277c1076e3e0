#include "llmtrain/checkpoint/verify.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

// Format version 1 is frozen: these files were written when it was defined. A change of the writer that
// changes them needs a new format version; the reader must read them for ever.
namespace {

const std::string kGolden = std::string(LLMTRAIN_SOURCE_DIR) + "/tests/checkpoint/golden/step-00000005";

}  // namespace

TEST_CASE("golden: format version 1 is written byte for byte", "[checkpoint]") {
  MemoryFileSystem memory;
  const auto committed = save(memory, target_of("checkpoints", 5), make_sample(), make_state());
  REQUIRE(committed);
  const auto disk = make_posix_filesystem();
  const auto entries = disk->list(kGolden);
  REQUIRE(entries);
  CHECK(entries->size() == memory.list(committed->path).value().size());
  for (const DirectoryEntry& entry : *entries) {
    INFO(entry.name);
    CHECK(read_file(*disk, join_path(kGolden, entry.name), 1 << 20).value() ==
          memory.contents(join_path(committed->path, entry.name)));
  }
}

TEST_CASE("golden: format version 1 is read", "[checkpoint]") {
  const auto disk = make_posix_filesystem();
  CHECK(verify_checkpoint(*disk, kGolden, VerifyDepth::kFull).intact());
  auto reader = CheckpointReader::open(*disk, kGolden);
  REQUIRE(reader);
  const Sample sample = make_sample();
  REQUIRE(reader->expect(sample.infos));
  CHECK(reader->state().spec_yaml == make_state().spec_yaml);
  for (std::size_t i = 0; i < sample.infos.size(); ++i) {
    std::string bytes(sample.bytes[i].size(), '\0');
    REQUIRE(
        reader->read(sample.infos[i].name, sample.infos[i].dtype, std::as_writable_bytes(std::span(bytes))));
    CHECK(bytes == sample.bytes[i]);
  }
}

// Run by hand when a format version is born: checkpoint_test "[.write-golden]", then copy the directory.
TEST_CASE("golden: write the files", "[.write-golden]") {
  const auto disk = make_posix_filesystem();
  const std::string directory = LLMTRAIN_BINARY_DIR "/golden";
  REQUIRE(remove_tree(*disk, directory));
  REQUIRE(save(*disk, target_of(directory, 5), make_sample(), make_state()));
}
