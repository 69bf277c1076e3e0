#include "llmtrain/data/indexed_dataset.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "llmtrain/data/corpus.hpp"
#include "llmtrain/data/indexed_writer.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using test::TemporaryDirectory;

namespace {

template <class T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// The bytes of an index, written from the format's description alone.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::vector<std::int32_t> lengths = {3, 2, 4};
  std::vector<std::int64_t> pointers = {0, 6, 10};
  std::vector<std::int64_t> documents = {0, 1, 3};

  std::string bytes() const {
    std::string out = magic;
    put(out, version);
    put(out, code);
    put<std::uint64_t>(out, lengths.size());
    put<std::uint64_t>(out, documents.size());
    for (const auto length : lengths) put(out, length);
    for (const auto pointer : pointers) put(out, pointer);
    for (const auto document : documents) put(out, document);
    return out;
  }
};

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string nine_tokens() {
  std::string bytes;
  for (std::uint16_t id = 100; id < 109; ++id) put(bytes, id);
  return bytes;
}

// Opens a pair of these bytes and returns the error's message.
std::string refusal(const std::string& idx, const std::string& bin) {
  const TemporaryDirectory dir;
  write(dir / "a.idx", idx);
  write(dir / "a.bin", bin);
  const auto set = IndexedDataset::open(dir / "a", IndexCheck::kFull);
  REQUIRE_FALSE(set);
  CHECK(set.error().code == ErrorCode::kData);
  CHECK_FALSE(set.error().hint.empty());
  CHECK(set.error().message.find(dir.path()) == 0);  // every message names the file
  return set.error().message.substr(dir.path().size() + 1);
}

std::vector<std::int32_t> read(const TokenSource& source, std::int64_t offset, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  REQUIRE(source.read(offset, ids));
  return ids;
}

}  // namespace

TEST_CASE("indexed dataset: reads what the format says", "[data]") {
  const TemporaryDirectory dir;
  write(dir / "a.idx", Index().bytes());
  write(dir / "a.bin", nine_tokens());
  const auto set = IndexedDataset::open(dir / "a");
  REQUIRE(set);
  CHECK(set->num_tokens() == 9);
  CHECK(set->num_documents() == 2);
  CHECK(set->num_sequences() == 3);
  CHECK(set->document_begin(0) == 0);
  CHECK(set->document_begin(1) == 3);
  CHECK(set->document_begin(2) == 9);
  CHECK(set->sequence_length(2) == 4);
  CHECK_FALSE(set->has_modes());
  CHECK(read(*set, 2, 5) == std::vector<std::int32_t>{102, 103, 104, 105, 106});
  CHECK(document_at(*set, 2) == 0);
  CHECK(document_at(*set, 3) == 1);
}

TEST_CASE("indexed dataset: multimodal files have one more byte a sequence", "[data]") {
  const TemporaryDirectory dir;
  write(dir / "a.idx", Index().bytes() + std::string(3, '\0'));
  write(dir / "a.bin", nine_tokens());
  const auto set = IndexedDataset::open(dir / "a");
  REQUIRE(set);
  CHECK(set->has_modes());
}

TEST_CASE("indexed dataset: every integer type is widened with its sign", "[data]") {
  const TemporaryDirectory dir;
  const auto check =
      [&](std::uint8_t code, const std::string& bin, std::int64_t width, std::vector<std::int32_t> expected) {
        Index index;
        index.code = code;
        index.lengths = {2};
        index.pointers = {0};
        index.documents = {0, 1};
        write(dir / "a.idx", index.bytes());
        write(dir / "a.bin", bin);
        CHECK(bin.size() == static_cast<std::size_t>(2 * width));
        const auto set = IndexedDataset::open(dir / "a");
        REQUIRE(set);
        CHECK(read(*set, 0, 2) == expected);
      };
  check(1, "\x01\xFF", 1, {1, 255});
  check(2, "\x01\xFF", 1, {1, -1});
  check(3, std::string("\x01\x00\xFE\xFF", 4), 2, {1, -2});
  check(4, std::string("\x01\x00\x00\x00\x00\x00\x01\x00", 8), 4, {1, 65536});
  check(8, std::string("\x01\x00\xFE\xFF", 4), 2, {1, 65534});
  std::string wide;
  put<std::int64_t>(wide, 7);
  put<std::int64_t>(wide, std::int64_t{1} << 40);  // no token id: read as -1, which no vocabulary allows
  check(5, wide, 8, {7, -1});
}

TEST_CASE("indexed dataset: a damaged header is refused with its offset", "[data]") {
  Index index;
  CHECK(refusal("", nine_tokens()) == "a.idx: byte 0: the file is empty");
  CHECK(refusal("hello, this is some other file", nine_tokens()).find("a.idx: byte 0: the magic bytes") == 0);
  CHECK(refusal(std::string("TNTIDX\0\0\1\0\0\0", 12), nine_tokens())
            .find("a.idx: byte 0: magic TNTIDX is the old") == 0);
  CHECK(refusal(index.bytes().substr(0, 20), nine_tokens()) ==
        "a.idx: byte 20: the file ends inside its header of 34 bytes");
  index.version = 2;
  CHECK(refusal(index.bytes(), nine_tokens()) == "a.idx: byte 9: version 2; only version 1 is known");
  for (const int code : {0, 6, 7, 9, 255}) {
    Index bad;
    bad.code = static_cast<std::uint8_t>(code);
    CHECK(refusal(bad.bytes(), nine_tokens()).find("a.idx: byte 17: type code " + std::to_string(code)) == 0);
  }
}

TEST_CASE("indexed dataset: counts that do not fit the file are refused", "[data]") {
  std::string bytes = Index().bytes();
  const std::uint64_t huge = ~std::uint64_t{0};
  std::string many = bytes;
  std::memcpy(many.data() + 18, &huge, 8);
  CHECK(refusal(many, nine_tokens()).find("a.idx: byte 18: 18446744073709551615 sequences cannot fit") == 0);
  many = bytes;
  std::memcpy(many.data() + 26, &huge, 8);
  CHECK(refusal(many, nine_tokens()).find("a.idx: byte 26: 18446744073709551615 document entries") == 0);
  CHECK(
      refusal(bytes.substr(0, bytes.size() - 1), nine_tokens()).find("make 94 bytes, but the file has 93") !=
      std::string::npos);
  CHECK(refusal(bytes + "xx", nine_tokens()).find("make 94 bytes, but the file has 96") != std::string::npos);
}

TEST_CASE("indexed dataset: damaged borders are refused", "[data]") {
  Index index;
  index.lengths = {3, -2, 4};
  CHECK(refusal(index.bytes(), nine_tokens()) == "a.idx: byte 38: sequence 1 has length -2");
  index = {};
  index.pointers = {0, 8, 10};
  CHECK(refusal(index.bytes(), nine_tokens()).find("sequence 1 begins at byte 8, not at 6") !=
        std::string::npos);
  index = {};
  index.pointers = {2, 6, 10};
  CHECK(refusal(index.bytes(), nine_tokens()).find("sequence 0 begins at byte 2, not at 0") !=
        std::string::npos);
  index = {};
  index.pointers = {0, 6, std::int64_t{1} << 62};
  CHECK(refusal(index.bytes(), nine_tokens()).find("a.idx: byte 62: sequence 2 of 4 tokens begins at byte") ==
        0);
  index = {};
  index.documents = {1, 1, 3};
  CHECK(refusal(index.bytes(), nine_tokens()).find("a.idx: byte 70: the document index starts at 1, not 0") ==
        0);
  index = {};
  index.documents = {0, 1, 2};
  CHECK(refusal(index.bytes(), nine_tokens()).find("a.idx: byte 86: the document index ends at 2") == 0);
  index = {};
  index.documents = {0, 4, 3};
  CHECK(refusal(index.bytes(), nine_tokens()).find("document 0 spans sequences 0 to 4 of 3") !=
        std::string::npos);
}

TEST_CASE("indexed dataset: a .bin that is too short, too long or empty is refused", "[data]") {
  const std::string idx = Index().bytes();
  CHECK(refusal(idx, nine_tokens().substr(0, 16)).find("begins at byte 10 of") != std::string::npos);
  CHECK(refusal(idx, nine_tokens() + "xx").find("a.bin: has 20 bytes;") == 0);
  CHECK(refusal(idx, "").find("begins at byte 10 of") != std::string::npos);
  Index none;
  none.lengths = {};
  none.pointers = {};
  none.documents = {0};
  CHECK(refusal(none.bytes(), "") == "a: holds no tokens");
}

TEST_CASE("indexed dataset: a file that shrinks while in use is an error, not a crash", "[data]") {
  const TemporaryDirectory dir;
  write(dir / "a.idx", Index().bytes());
  write(dir / "a.bin", nine_tokens());
  const auto set = IndexedDataset::open(dir / "a");
  REQUIRE(set);
  std::filesystem::resize_file(dir / "a.bin", 4);
  std::vector<std::int32_t> ids(9);
  const Status status = set->read(0, ids);
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find("shrank from 18 to 4 bytes") != std::string::npos);
}

TEST_CASE("indexed dataset: found by prefix, by either file, by directory, through links and spaces",
          "[data]") {
  const TemporaryDirectory dir;
  const std::string inside = dir / "my data";
  std::filesystem::create_directory(inside);
  write(inside + "/web.v1.idx", Index().bytes());
  write(inside + "/web.v1.bin", nine_tokens());
  std::filesystem::create_directory_symlink(inside, dir / "link");
  for (const std::string& path : {inside,
                                  inside + "/",
                                  inside + "/web.v1",
                                  inside + "/web.v1.idx",
                                  inside + "/web.v1.bin",
                                  dir / "link"}) {
    INFO(path);
    CHECK(IndexedDataset::open(path));
  }
  write(inside + "/other.idx", Index().bytes());
  const auto two = IndexedDataset::open(inside);
  REQUIRE_FALSE(two);
  CHECK(two.error().message.find("holds 2 .idx files") != std::string::npos);
  const auto half = IndexedDataset::open(inside + "/other");
  REQUIRE_FALSE(half);
  CHECK(half.error().code == ErrorCode::kNotFound);
  CHECK(half.error().message.find("other.idx is there, but not") != std::string::npos);
  const auto none = IndexedDataset::open(dir / "nothing");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kNotFound);
}

// NVIDIA/Megatron-LM#598: counters of documents, samples and offsets beyond 32 bits.
TEST_CASE("indexed dataset: a sparse file of 2^31 + 64 tokens", "[data]") {
  const TemporaryDirectory dir;
  const std::int64_t tokens = (std::int64_t{1} << 31) + 64;
  Index index;
  index.lengths = {INT32_MAX, 65};
  index.pointers = {0, std::int64_t{INT32_MAX} * 2};
  index.documents = {0, 1, 2};
  write(dir / "a.idx", index.bytes());
  std::string last;
  for (int i = 0; i < 64; ++i) put(last, static_cast<std::uint16_t>(1000 + i));
  write(dir / "a.bin", "");
  std::filesystem::resize_file(dir / "a.bin", static_cast<std::uintmax_t>(tokens * 2));
  const int fd = ::open((dir / "a.bin").c_str(), O_WRONLY);
  REQUIRE(::pwrite(fd, last.data(), last.size(), (tokens - 64) * 2) == 128);
  ::close(fd);

  CorpusConfig config;
  config.train = {{dir / "a", 1.0, std::nullopt}};
  config.seq_length = 4096;
  config.vocab_size = 2000;
  const auto corpus = open_corpus(config);
  REQUIRE(corpus);
  const SampleSet& set = *corpus->train;
  CHECK(set.num_tokens() == tokens);
  CHECK(set.num_samples() == (tokens - 1) / 4096);
  CHECK(set.at(3 * set.num_samples() - 1).epoch == 2);
  CHECK(set.at(3 * set.num_samples()).epoch == 3);
  std::vector<std::int32_t> sample(4097);
  REQUIRE(set.read({0, 0, set.num_samples() - 1}, sample));
  const std::int64_t begin = (set.num_samples() - 1) * 4096;
  for (std::int64_t i = 0; i < 4097; ++i) {
    const std::int64_t from_end = begin + i - (tokens - 64);
    CHECK(sample[static_cast<std::size_t>(i)] == (from_end >= 0 ? 1000 + from_end : 0));
  }
}

TEST_CASE("indexed dataset: fingerprints tell contents apart", "[data]") {
  const TemporaryDirectory dir;
  write(dir / "a.idx", Index().bytes());
  write(dir / "a.bin", nine_tokens());
  write(dir / "b.idx", Index().bytes());
  std::string changed = nine_tokens();
  changed[4] ^= 1;
  write(dir / "b.bin", changed);
  const std::uint64_t a = IndexedDataset::open(dir / "a")->fingerprint();
  CHECK(a == IndexedDataset::open(dir / "a")->fingerprint());
  CHECK(a != IndexedDataset::open(dir / "b")->fingerprint());
}
