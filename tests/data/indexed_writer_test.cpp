#include "llmtrain/data/indexed_writer.hpp"

#include <filesystem>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using test::TemporaryDirectory;

namespace {

using Documents = std::vector<std::vector<std::int32_t>>;

Status write(FileSystem& files, const IndexedWriter::Options& options, const Documents& documents) {
  LLMTRAIN_ASSIGN(writer, IndexedWriter::create(files, options));
  for (const auto& document : documents) {
    LLMTRAIN_TRY(writer.append(document));
    LLMTRAIN_TRY(writer.end_document());
  }
  return writer.finish();
}

Documents read_back(const std::string& prefix) {
  const IndexedDataset set = IndexedDataset::open(prefix, IndexCheck::kFull).value();
  Documents documents;
  for (std::int64_t d = 0; d < set.num_documents(); ++d) {
    std::vector<std::int32_t> ids(
        static_cast<std::size_t>(set.document_begin(d + 1) - set.document_begin(d)));
    REQUIRE(set.read(set.document_begin(d), ids));
    documents.push_back(ids);
  }
  return documents;
}

}  // namespace

// princeton-nlp/LLM-Shearing#65: ids above 65535 must not wrap.
TEST_CASE("indexed writer: the top id of every vocabulary comes back", "[data]") {
  const auto files = make_posix_filesystem();
  for (const std::int64_t vocab_size : {256, 65499, 65500, 65535, 65536, 65537, 70000}) {
    const TemporaryDirectory dir;
    const auto top = static_cast<std::int32_t>(vocab_size - 1);
    const Documents documents = {{0, top}, {top, 1, 2}};
    const TokenType type = token_type_for(vocab_size);
    CHECK(type == (vocab_size < 65500 ? TokenType::kUint16 : TokenType::kInt32));
    REQUIRE(write(*files, {.prefix = dir / "a", .type = type}, documents));
    CHECK(read_back(dir / "a") == documents);
    CHECK(IndexedDataset::open(dir / "a")->type() == type);
  }
}

TEST_CASE("indexed writer: an id that its type cannot hold is refused, and nothing stays", "[data]") {
  const auto files = make_posix_filesystem();
  const TemporaryDirectory dir;
  const Status status = write(*files, {.prefix = dir / "a", .type = TokenType::kUint16}, {{1, 65536}});
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find("token 1 has id 65536; uint16 holds 0 to 65535") != std::string::npos);
  CHECK_FALSE(write(*files, {.prefix = dir / "a", .type = TokenType::kUint16}, {{-1}}));
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("indexed writer: long documents become several sequences of one document", "[data]") {
  const auto files = make_posix_filesystem();
  const TemporaryDirectory dir;
  const Documents documents = {{1, 2, 3, 4, 5, 6, 7}, {8}, {}, {9, 10, 11}};
  REQUIRE(write(*files, {.prefix = dir / "a", .type = TokenType::kUint16, .max_sequence = 3}, documents));
  CHECK(read_back(dir / "a") == documents);
  CHECK(IndexedDataset::open(dir / "a")->num_sequences() == 6);
}

TEST_CASE("indexed writer: a pair that is there is only replaced when asked to", "[data]") {
  const auto files = make_posix_filesystem();
  const TemporaryDirectory dir;
  REQUIRE(write(*files, {.prefix = dir / "a", .type = TokenType::kUint16}, {{1}}));
  const Status refused = write(*files, {.prefix = dir / "a", .type = TokenType::kUint16}, {{2}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUsage);
  CHECK(read_back(dir / "a") == Documents{{1}});
  REQUIRE(write(*files, {.prefix = dir / "a", .type = TokenType::kUint16, .replace = true}, {{2}, {3}}));
  CHECK(read_back(dir / "a") == Documents{{2}, {3}});
}

TEST_CASE("indexed writer: a writer that is dropped leaves nothing, and what was there stays", "[data]") {
  const auto files = make_posix_filesystem();
  const TemporaryDirectory dir;
  REQUIRE(write(*files, {.prefix = dir / "a", .type = TokenType::kUint16}, {{1}}));
  {
    auto writer =
        IndexedWriter::create(*files, {.prefix = dir / "a", .type = TokenType::kUint16, .replace = true});
    REQUIRE(writer);
    REQUIRE(writer->append(std::vector<std::int32_t>{5}));
  }
  CHECK(read_back(dir / "a") == Documents{{1}});
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 2);
}
