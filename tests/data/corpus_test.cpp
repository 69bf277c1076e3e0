#include "llmtrain/data/corpus.hpp"

#include <set>
#include <vector>

#include "llmtrain/data/batch.hpp"
#include "llmtrain/data/indexed_writer.hpp"

#include "tests/data/memory_source.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using test::counting;
using test::MemorySource;
using test::TemporaryDirectory;

namespace {

// Documents of these lengths whose tokens count up from 0.
void write_documents(const std::string& prefix, const std::vector<int>& lengths) {
  const auto files = make_posix_filesystem();
  auto writer = IndexedWriter::create(*files, {.prefix = prefix, .type = TokenType::kInt32});
  std::int32_t next = 0;
  for (const int length : lengths) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < length; ++i) ids.push_back(next++);
    REQUIRE(writer->append(ids));
    REQUIRE(writer->end_document());
  }
  REQUIRE(writer->finish());
}

CorpusConfig config_of(const std::string& path, double valid_fraction, std::int64_t seq_length = 4) {
  CorpusConfig config;
  config.train = {{path, 1.0, std::nullopt}};
  config.valid_fraction = valid_fraction;
  config.seq_length = seq_length;
  config.vocab_size = 1 << 20;
  config.seed = 3;
  return config;
}

}  // namespace

TEST_CASE("corpus: synthetic data needs no file and holds out its own stream", "[data]") {
  CorpusConfig config = config_of("synthetic", 0, 64);
  config.vocab_size = 512;
  config.valid = {{"synthetic", 1.0, std::nullopt}};
  const auto corpus = open_corpus(config);
  REQUIRE(corpus);
  REQUIRE(corpus->valid);
  CHECK(corpus->train->num_samples() > 10000);
  CHECK(corpus->valid->size() == corpus->valid->num_samples());
  CHECK(open_corpus(config)->fingerprint == corpus->fingerprint);
  config.seed = 4;
  CHECK(open_corpus(config)->fingerprint != corpus->fingerprint);
}

TEST_CASE("corpus: a fraction holds out the last documents, and no token is in both", "[data]") {
  const TemporaryDirectory dir;
  write_documents(dir / "a", std::vector<int>(20, 50));
  const auto corpus = open_corpus(config_of(dir / "a", 0.1));
  REQUIRE(corpus);
  REQUIRE(corpus->valid);
  CHECK(corpus->train->num_tokens() == 900);
  CHECK(corpus->valid->num_tokens() == 100);
  std::vector<std::int32_t> tokens(5);
  for (std::int64_t i = 0; i < corpus->train->num_samples(); ++i) {
    REQUIRE(corpus->train->read(corpus->train->at(i), tokens));
    CHECK(tokens.back() < 900);
  }
  REQUIRE(corpus->valid->read(corpus->valid->at(0), tokens));
  CHECK(tokens.front() == 900);
}

TEST_CASE("corpus: one huge document is cut inside", "[data]") {
  const TemporaryDirectory dir;
  write_documents(dir / "a", {1000});
  const auto corpus = open_corpus(config_of(dir / "a", 0.1));
  REQUIRE(corpus);
  CHECK(corpus->train->num_tokens() == 900);
  CHECK(corpus->valid->num_tokens() == 100);
}

TEST_CASE("corpus: the split stays near its share when documents differ in size", "[data]") {
  const MemorySource even(counting(1000), {0, 480, 970, 1000});
  CHECK(split_point(even, 0.03) == 970);
  CHECK(split_point(even, 0.02) == 970);  // 3 % held out: less than double
  CHECK(split_point(even, 0.01) == 990);  // no border is near enough
  CHECK(split_point(even, 0.5) == 480);
}

// NVIDIA/Megatron-LM#957: a split without tokens must not hang the start.
TEST_CASE("corpus: a split that cannot fill a sample is named", "[data]") {
  const TemporaryDirectory dir;
  write_documents(dir / "a", {10, 10, 10});
  const auto none = open_corpus(config_of(dir / "a", 0.01));
  REQUIRE_FALSE(none);
  CHECK(none.error().code == ErrorCode::kData);
  CHECK(none.error().message.find("the valid split of " + dir.path() + "/a holds 0 tokens") == 0);
  const auto all = open_corpus(config_of(dir / "a", 0.99));
  REQUIRE_FALSE(all);
  CHECK(all.error().message.find("the train split of") == 0);
  const auto longer = open_corpus(config_of(dir / "a", 0, 64));
  REQUIRE_FALSE(longer);
  CHECK(longer.error().message.find("holds 30 tokens; one sample of seq_length 64 needs 65") !=
        std::string::npos);
  CHECK_FALSE(open_corpus(config_of(dir / "a", 1.5)));
}

TEST_CASE("corpus: a missing source is not found, by its path", "[data]") {
  const auto corpus = open_corpus(config_of("/nowhere/at all", 0));
  REQUIRE_FALSE(corpus);
  CHECK(corpus.error().code == ErrorCode::kNotFound);
  CHECK(corpus.error().message.find("/nowhere/at all") == 0);
  CorpusConfig none = config_of("x", 0);
  none.train.clear();
  CHECK_FALSE(open_corpus(none));
}

TEST_CASE("corpus: several validation sources are each read once", "[data]") {
  const TemporaryDirectory dir;
  write_documents(dir / "a", {41});
  write_documents(dir / "b", {13});
  CorpusConfig config = config_of(dir / "a", 0);
  config.valid = {{dir / "a", 1.0, std::nullopt}, {dir / "b", 1.0, std::nullopt}};
  const auto corpus = open_corpus(config);
  REQUIRE(corpus);
  REQUIRE(corpus->valid->size() == 13);
  std::set<std::int64_t> ids;
  for (std::int64_t i = 0; i < 13; ++i) ids.insert(corpus->valid->sample_id(corpus->valid->at(i)));
  CHECK(ids.size() == 13);
}

TEST_CASE("corpus: the samples of a step can be listed", "[data]") {
  const TemporaryDirectory dir;
  write_documents(dir / "a", {41});
  const auto corpus = open_corpus(config_of(dir / "a", 0));
  const auto listed = samples_of_step(*corpus->train, 4, 3);
  REQUIRE(listed);
  REQUIRE(listed->size() == 4);
  for (std::int64_t row = 0; row < 4; ++row) {
    const StepSample& sample = (*listed)[static_cast<std::size_t>(row)];
    CHECK(sample.index == 8 + row);
    CHECK(sample.ref == corpus->train->at(8 + row));
    CHECK(sample.tokens.front() == sample.sample_id * 4);
    CHECK(sample.tokens.size() == 5);
  }
}
