#include "llmtrain/checkpoint/manifest.hpp"

#include "llmtrain/core/crc32c.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

Manifest make_manifest() {
  FileRecord record{
      "weights-00000-of-00001.safetensors", 10, 0, {7}, {{"w", DType::kFp32, {2, 3}, whole({2, 3})}}};
  record.crc32c = combine_blocks(record.block_crc32c, record.bytes);
  return {make_state(), {record}};
}

// The text with `from` replaced by `to`, and a checksum that fits again: damage that only the checks of the
// content can find.
std::string forged(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const std::size_t body = text.rfind(" \"crc32c\"");
  text.resize(body);
  return text + fmt::format(" \"crc32c\": \"{:08x}\"\n}}\n", crc32c(std::as_bytes(std::span(text))));
}

}  // namespace

TEST_CASE("manifest: read back as written", "[checkpoint]") {
  const Manifest manifest = make_manifest();
  const auto read = decode_manifest(encode_manifest(manifest), "manifest.json");
  REQUIRE(read);
  CHECK(read->files == manifest.files);
  CHECK(encode_manifest(*read) == encode_manifest(manifest));
  CHECK(read->tensors().value() == std::vector<TensorInfo>{{"w", DType::kFp32, {2, 3}}});
  Manifest extreme = manifest;
  extreme.state.seed = UINT64_MAX;
  extreme.state.tokens = INT64_MAX;
  extreme.state.spec_yaml = "a: \"\\u0000 \xc3\xa4\"\n\t";
  CHECK(decode_manifest(encode_manifest(extreme), "m")->state.seed == UINT64_MAX);
  CHECK(decode_manifest(encode_manifest(extreme), "m")->state.spec_yaml == extreme.state.spec_yaml);
}

TEST_CASE("manifest: text that is not UTF-8 does not stop a save", "[checkpoint]") {
  Manifest manifest = make_manifest();
  manifest.state.spec_yaml = "dir: \xff\n";
  CHECK(decode_manifest(encode_manifest(manifest), "m")->state.spec_yaml == "dir: \xef\xbf\xbd\n");
}

TEST_CASE("manifest: content that cannot be is refused, also under a right checksum", "[checkpoint]") {
  const std::string text = encode_manifest(make_manifest());
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& why) {
    const auto read = decode_manifest(forged(text, from, to), "manifest.json");
    REQUIRE(!read);
    INFO(read.error().message);
    CHECK(read.error().message.find("manifest.json") != std::string::npos);
    CHECK(read.error().message.find(why) != std::string::npos);
  };
  refused("llmtrain-checkpoint", "something-else", "is not llmtrain-checkpoint");
  refused(
      "\"format_version\": 1", "\"format_version\": 2", "format version 2; this llmtrain reads version 1");
  refused("\"step\":5", "\"step\":-5", "\"step\" is not an integer between 0");
  refused("\"step\":5", "\"step\":5.5", "\"step\" is not an integer");
  refused("\"step\":5", "\"step\":99999999999999999999", "\"step\" is not an integer");
  refused("\"seed\":1234,", "", "\"seed\" is missing");
  refused("\"step\":5", "\"step\":5,\"step\":5", "\"step\" appears twice");
  refused("weights-00000-of-00001.safetensors", "../../etc/passwd", "is not a plain file name");
  refused("weights-00000-of-00001.safetensors", "manifest.json", "listed twice or out of order");
  refused("\"bytes\":10", "\"bytes\":1048577", "and 1 block checksums");
  refused("\"blocks\":\"00000007\"", "\"blocks\":\"00000008\"", "disagree");
  refused("\"blocks\":\"00000007\"", "\"blocks\":\"0000000x\"", "not eight hexadecimal digits");
  refused("\"dtype\":\"F32\"", "\"dtype\":\"F31\"", "has dtype \"F31\"");
  refused("\"shape\":[2,3]", "\"shape\":[2,3],\"offset\":[0,1],\"extent\":[2,3]", "does not lie in");
  refused("\"shape\":[2,3]", "\"shape\":[2,3],\"offset\":[0,0],\"extent\":[2,2]", "do not cover");
  refused("\"shape\":[2,3]", "\"shape\":[4611686018427387904,4611686018427387904]", "impossible shape");
  refused("\"dp\":2", "\"dp\":0", "\"dp\" is not an integer between 1");
  refused("\"block_bytes\": 1048576", "\"block_bytes\": 4096", "block_bytes is not 1048576");
  refused("\"extra\":{", "\"extra\":{\"x\":1,", "extra \"x\" is not a string");
}

TEST_CASE("manifest: fields that are not known are passed over", "[checkpoint]") {
  const std::string text =
      forged(encode_manifest(make_manifest()), " \"spec\"", " \"later\": [1],\n \"spec\"");
  CHECK(decode_manifest(text, "m"));
}

TEST_CASE("records: what a rank reports survives the way to the committer", "[checkpoint]") {
  const std::vector<FileRecord> records = make_manifest().files;
  CHECK(decode_file_records(encode_file_records(records), "rank 1").value() == records);
  CHECK(decode_file_records(encode_file_records({}), "rank 1").value().empty());
  CHECK(!decode_file_records("{}", "rank 1"));
  CHECK(!decode_file_records("[]", "rank 1"));
}
