#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/checkpoint/verify.hpp"

#include "sample_checkpoint.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/memory_filesystem.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr char kCheckpoints[] = "run/checkpoints";
const std::string kStep = "run/checkpoints/step-00000005";

void prepare(MemoryFileSystem& files) {
  REQUIRE(save(files, target_of(kCheckpoints, 5), make_sample(), make_state(5)));
  REQUIRE(verify_checkpoint(files, kStep, VerifyDepth::kFull).intact());
}

VerifyReport verify(MemoryFileSystem& files) {
  return verify_checkpoint(files, kStep, VerifyDepth::kFull);
}

// Some damage of `file` is reported, and its words hold `what`.
bool names(const VerifyReport& report, const std::string& file, const std::string& what) {
  for (const Damage& damage : report.damages)
    if (damage.file == file && damage.what.find(what) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("damage: every flipped byte of every file is named with file and offset", "[checkpoint]") {
  MemoryFileSystem files;
  prepare(files);
  std::size_t num_flips = 0;
  const auto entries = files.list(kStep);
  REQUIRE(entries);
  for (const DirectoryEntry& entry : *entries) {
    std::string& bytes = files.contents(kStep + "/" + entry.name);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      const char mask = static_cast<char>(1 << (at % 8));
      bytes[at] ^= mask;
      const VerifyReport report = verify(files);
      REQUIRE(report.damages.size() == 1);
      INFO(entry.name << " byte " << at << ": " << to_string(report.damages[0]));
      CHECK(report.damages[0].file == entry.name);
      CHECK(report.damages[0].begin == at);
      CHECK(report.damages[0].end == at + 1);
      CHECK(report.damages[0].what.find("byte " + std::to_string(at) + " ") != std::string::npos);
      bytes[at] ^= mask;
      ++num_flips;
    }
  }
  CHECK(num_flips > 2000);
  CHECK(verify(files).intact());
}

TEST_CASE("damage: no flipped byte is ever loaded", "[checkpoint]") {
  MemoryFileSystem files;
  prepare(files);
  const Sample sample = make_sample();
  const std::string path = kStep + "/optimizer-00000-of-00002.safetensors";
  std::string& bytes = files.contents(path);
  for (std::size_t at = 0; at < bytes.size(); at += 13) {
    bytes[at] ^= 0x10;
    auto reader = CheckpointReader::open(files, kStep);
    REQUIRE(reader);
    bool refused = false;
    for (std::size_t i = 0; i < sample.infos.size(); ++i) {
      std::string out(sample.bytes[i].size(), '\0');
      const Status status =
          reader->read(sample.infos[i].name, sample.infos[i].dtype, std::as_writable_bytes(std::span(out)));
      if (status)
        CHECK(out == sample.bytes[i]);
      else
        refused = true;
      if (!status)
        CHECK(status.error().message.find(path + ": byte " + std::to_string(at)) != std::string::npos);
    }
    CHECK(refused);
    bytes[at] ^= 0x10;
  }
}

TEST_CASE("damage: files that are missing, unlisted, cut, grown or swapped", "[checkpoint]") {
  MemoryFileSystem files;
  prepare(files);
  const std::string weights = "weights-00001-of-00002.safetensors";
  std::string& bytes = files.contents(kStep + "/" + weights);

  SECTION("missing shard") {
    REQUIRE(files.remove_file(kStep + "/" + weights));
    CHECK(names(verify(files), weights, "missing"));
    CHECK(!verify_checkpoint(files, kStep, VerifyDepth::kSizes).intact());
  }
  SECTION("missing manifest") {
    REQUIRE(files.remove_file(kStep + "/manifest.json"));
    CHECK(names(verify(files), "manifest.json", "never committed"));
  }
  SECTION("unlisted file and directory") {
    REQUIRE(files.create(kStep + "/model.py"));
    REQUIRE(files.make_directory(kStep + "/more"));
    CHECK(names(verify(files), "model.py", "not listed"));
    CHECK(names(verify(files), "more", "not listed"));
  }
  SECTION("cut off") {
    bytes.resize(bytes.size() - 1);
    CHECK(names(verify(files), weights, "cut off at offset " + std::to_string(bytes.size())));
  }
  SECTION("grown") {
    bytes.push_back('\0');
    CHECK(names(verify(files), weights, "bytes were added at offset"));
  }
  SECTION("swapped") {
    files.contents(kStep + "/tokenizer.json") = "{\"model\": \"other\"}\n";
    CHECK(names(verify(files), "tokenizer.json", "checksum"));
  }
  SECTION("manifest cut, emptied, overwritten") {
    std::string& manifest = files.contents(kStep + "/manifest.json");
    const std::string whole_text = manifest;
    for (std::size_t size = 0; size < whole_text.size(); size += 7) {
      manifest = whole_text.substr(0, size);
      CHECK(!verify(files).intact());
    }
    manifest = std::string(whole_text.size(), '\0');
    CHECK(!verify(files).intact());
    manifest = whole_text + "\n";
    CHECK(!verify(files).intact());
  }
  CHECK(!verify(files).intact());
}

TEST_CASE("damage: random damage of several bytes is found in its block", "[checkpoint]") {
  MemoryFileSystem files;
  prepare(files);
  const std::string name = "optimizer-00001-of-00002.safetensors";
  std::string& bytes = files.contents(kStep + "/" + name);
  bytes[70] ^= 1;
  bytes[200] ^= 1;
  const VerifyReport report = verify(files);
  REQUIRE(report.damages.size() == 1);
  CHECK(report.damages[0].file == name);
  CHECK(report.damages[0].begin <= 70U);
  CHECK(report.damages[0].end > 200U);
}

TEST_CASE("damage: falling back over a damaged checkpoint says why (C9)", "[checkpoint]") {
  MemoryFileSystem files;
  for (const std::int64_t step : {5, 10, 15})
    REQUIRE(
        save(files, target_of(kCheckpoints, step), make_sample(static_cast<int>(step)), make_state(step)));
  files.contents("run/checkpoints/step-00000015/manifest.json")[20] ^= 4;
  files.contents("run/checkpoints/step-00000010/tokenizer.json")[3] ^= 4;
  const auto selection = find_newest(files, kCheckpoints, VerifyDepth::kFull);
  REQUIRE(selection);
  REQUIRE(selection->chosen);
  CHECK(selection->chosen->step == 5);
  REQUIRE(selection->rejected.size() == 2);
  CHECK(selection->rejected[0].path == "run/checkpoints/step-00000015");
  CHECK(selection->rejected[0].reason.find("manifest.json: byte 20 is damaged") != std::string::npos);
  CHECK(selection->rejected[1].reason.find("tokenizer.json: byte 3 is 0x") != std::string::npos);

  files.contents("run/checkpoints/step-00000005/tokenizer.json")[3] ^= 4;
  CHECK(!find_newest(files, kCheckpoints, VerifyDepth::kFull).value().chosen);
}
