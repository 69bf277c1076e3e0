#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/checkpoint/verify.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

TEST_CASE("checkpoint: what was saved is read back", "[checkpoint]") {
  const TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  const std::string checkpoints = directory / "run/checkpoints";
  const Sample sample = make_sample();
  const auto committed = save(*files, target_of(checkpoints, 5), sample, make_state());
  REQUIRE(committed);
  CHECK(committed->name == "step-00000005");

  auto reader = CheckpointReader::open(*files, committed->path);
  REQUIRE(reader);
  CHECK(reader->state().next_sample == 40);
  CHECK(reader->state().layout == MeshShape{.dp = 2});
  CHECK(reader->state().extra.at("note") == "small");
  CHECK(reader->expect(sample.infos));
  for (std::size_t i = 0; i < sample.infos.size(); ++i) {
    std::string bytes(sample.bytes[i].size(), '\0');
    REQUIRE(
        reader->read(sample.infos[i].name, sample.infos[i].dtype, std::as_writable_bytes(std::span(bytes))));
    CHECK(bytes == sample.bytes[i]);
  }
  CHECK(reader->read_extra("tokenizer.json", 1000).value() == "{\"model\": \"bytes\"}\n");

  const VerifyReport report = verify_checkpoint(*files, committed->path, VerifyDepth::kFull);
  CHECK(report.intact());
  const auto selection = find_newest(*files, checkpoints, VerifyDepth::kFull);
  REQUIRE(selection);
  REQUIRE(selection->chosen);
  CHECK(selection->chosen->step == 5);
}
