#include "llmtrain/data/synthetic_source.hpp"

#include <algorithm>
#include <vector>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

std::vector<std::int32_t> all_tokens(const TokenSource& source) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.num_tokens()));
  REQUIRE(source.read(0, tokens));
  return tokens;
}

std::uint64_t checksum(const std::vector<std::int32_t>& tokens) {
  std::uint64_t sum = 0;
  for (const std::int32_t token : tokens) {
    sum = static_cast<std::uint64_t>(
        (static_cast<unsigned __int128>(sum) * 31 + static_cast<std::uint64_t>(token)) %
        (std::uint64_t{1} << 61));
  }
  return sum;
}

}  // namespace

// The expected values were printed by order_reference.py, written from docs/DATA.md alone.
TEST_CASE("synthetic: the corpus equals the documented recipe", "[data]") {
  struct Golden {
    std::int64_t vocab_size;
    bool valid;
    std::int64_t num_tokens;
    std::uint64_t sum;
  };
  for (const Golden& golden : {Golden{512, false, 1170557, 1004424534558542296},
                               Golden{512, true, 71627, 1158018479424060129},
                               Golden{2, false, 1170557, 1500527908595484028},
                               Golden{101, false, 1170557, 228963819939126944},
                               Golden{50257, false, 1170557, 2167952271941010192}}) {
    const auto source = SyntheticSource::make({1234, golden.vocab_size, golden.valid});
    REQUIRE(source);
    CHECK(source->num_tokens() == golden.num_tokens);
    CHECK(checksum(all_tokens(*source)) == golden.sum);
  }
}

TEST_CASE("synthetic: documents are bounded, end with the last id and cover the stream", "[data]") {
  const SyntheticSource source = SyntheticSource::make({7, 300, true}).value();
  const auto tokens = all_tokens(source);
  CHECK(source.document_begin(0) == 0);
  CHECK(source.document_begin(source.num_documents()) == source.num_tokens());
  for (std::int64_t d = 0; d < source.num_documents(); ++d) {
    const std::int64_t begin = source.document_begin(d);
    const std::int64_t end = source.document_begin(d + 1);
    CHECK(end - begin >= 16);
    CHECK(end - begin <= 271);
    CHECK(tokens[static_cast<std::size_t>(end - 1)] == 299);
    CHECK(document_at(source, begin) == d);
    CHECK(document_at(source, end - 1) == d);
    CHECK(std::all_of(
        tokens.begin() + begin, tokens.begin() + end - 1, [](std::int32_t t) { return t >= 0 && t < 299; }));
  }
}

TEST_CASE("synthetic: train and valid differ, and so do seeds", "[data]") {
  const SyntheticSource train = SyntheticSource::make({7, 300, false}).value();
  const SyntheticSource valid = SyntheticSource::make({7, 300, true}).value();
  const SyntheticSource other = SyntheticSource::make({8, 300, false}).value();
  std::vector<std::int32_t> a(200), b(200), c(200);
  REQUIRE(train.read(0, a));
  REQUIRE(valid.read(0, b));
  REQUIRE(other.read(0, c));
  CHECK(a != b);
  CHECK(a != c);
  CHECK(train.fingerprint() != valid.fingerprint());
  CHECK(train.fingerprint() != other.fingerprint());
  CHECK(train.fingerprint() == SyntheticSource::make({7, 300, false})->fingerprint());
}

TEST_CASE("synthetic: a vocabulary below two is refused", "[data]") {
  CHECK(SyntheticSource::make({1, 2, false}));
  const auto refused = SyntheticSource::make({1, 1, false});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message.find("vocabulary of 1 ids") != std::string::npos);
}
