#include "llmtrain/train/shard_report.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("shard report: records and errors arrive as they were sent", "[train]") {
  FileRecord record;
  record.name = "weights-00000-of-00001.safetensors";
  record.bytes = 3;
  record.block_crc32c = {7};
  record.crc32c = 7;

  const auto records = decode_shard_report(encode_shard_report(std::vector{record}));
  const auto failed = decode_shard_report(
      encode_shard_report(Error{ErrorCode::kStorage, "disk full:\n12 bytes wanted", "free some space"}));

  REQUIRE(records);
  CHECK((*records == std::vector{record}));  // libtorch claims to print any vector
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::kStorage);
  CHECK(failed.error().message == "disk full:\n12 bytes wanted");
  CHECK(failed.error().hint == "free some space");
}

TEST_CASE("shard report: rubbish is an error, not a success", "[train]") {
  CHECK_FALSE(decode_shard_report("E"));
  CHECK_FALSE(decode_shard_report(""));
  CHECK_FALSE(decode_status("E7"));
  CHECK(decode_status(encode_status(ok_status())));
}
