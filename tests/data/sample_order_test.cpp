#include "llmtrain/data/sample_order.hpp"

#include <set>
#include <vector>

#include "llmtrain/data/sample_set.hpp"

#include "tests/data/memory_source.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using test::counting;
using test::MemorySource;

namespace {

SampleOrder one_source(std::int64_t samples, std::uint64_t seed = 1234) {
  return SampleOrder::make({{"a", samples, 1.0, std::nullopt}}, seed, SampleOrder::Kind::kShuffled).value();
}

SampleSet sample_set(std::int64_t tokens, std::int64_t seq_length, std::int64_t vocab_size = 1 << 20) {
  auto source = std::make_shared<MemorySource>(counting(tokens));
  return SampleSet::make({{source, 0, tokens, 1.0, std::nullopt}},
                         {seq_length, vocab_size, 1, SampleOrder::Kind::kSequential, "train"})
      .value();
}

}  // namespace

TEST_CASE("sample order: each epoch holds each sample once, in another order", "[data]") {
  const SampleOrder order = one_source(8);
  std::vector<std::vector<std::int64_t>> epochs(3);
  std::vector<std::int64_t> log;
  for (std::int64_t g = 0; g < 20; ++g) {  // 2.5 epochs
    const SampleRef ref = order.at(g);
    CHECK(ref.epoch == g / 8);
    epochs[static_cast<std::size_t>(ref.epoch)].push_back(ref.sample);
    log.push_back(ref.sample);
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto& ids = epochs[static_cast<std::size_t>(epoch)];
    CHECK(std::set<std::int64_t>(ids.begin(), ids.end()).size() == 8);
  }
  CHECK(std::set<std::int64_t>(epochs[2].begin(), epochs[2].end()).size() == 4);
  CHECK(epochs[0] != epochs[1]);
  // Frozen: computed by order_reference.py.
  CHECK(log == std::vector<std::int64_t>{4, 0, 3, 7, 6, 5, 1, 2, 5, 7, 4, 2, 6, 0, 3, 1, 6, 4, 7, 3});
}

TEST_CASE("sample order: it does not end with the first epoch and starts anywhere", "[data]") {
  const SampleOrder order = one_source(10);
  CHECK_FALSE(order.size());
  const SampleOrder resumed = one_source(10);
  for (std::int64_t g = 13; g < 25; ++g) CHECK(resumed.at(g) == order.at(g));
  CHECK(order.at(1'000'000'007).epoch == 100'000'000);
}

TEST_CASE("sample order: a part with extreme weight wraps with a new shuffle", "[data]") {
  const SampleOrder order =
      SampleOrder::make(
          {{"a", 5, 0.002, std::nullopt}, {"b", 5, 0.998, std::nullopt}}, 1, SampleOrder::Kind::kShuffled)
          .value();
  std::vector<std::int64_t> counts(2, 0);
  std::set<std::pair<std::int64_t, std::int64_t>> drawn_of_b;
  for (std::int64_t g = 0; g < 2000; ++g) {
    const SampleRef ref = order.at(g);
    ++counts[static_cast<std::size_t>(ref.source)];
    CHECK(ref.sample < 5);
    if (ref.source == 1) CHECK(drawn_of_b.insert({ref.epoch, ref.sample}).second);
  }
  CHECK(std::abs(counts[0] - 4) <= 1);
  CHECK(std::abs(counts[1] - 1996) <= 1);
}

TEST_CASE("sample order: max_epochs ends a source, in whole samples", "[data]") {
  const auto order = SampleOrder::make({{"a", 8, 1.0, 2.5}}, 1, SampleOrder::Kind::kShuffled);
  CHECK(order->size() == 20);
  const auto none = SampleOrder::make({{"tiny", 8, 1.0, 0.1}}, 1, SampleOrder::Kind::kShuffled);
  REQUIRE_FALSE(none);
  CHECK(none.error().message.find("tiny: max_epochs 0.1 of 8 samples") == 0);
}

TEST_CASE("samples: fence posts and labels", "[data]") {  // EleutherAI/gpt-neox#972
  CHECK(num_samples(4 * 16 + 1, 16) == 4);
  CHECK(num_samples(4 * 16, 16) == 3);
  CHECK(num_samples(17, 16) == 1);
  CHECK(num_samples(16, 16) == 0);
  CHECK(num_samples(0, 16) == 0);

  const SampleSet set = sample_set(65, 16);
  REQUIRE(set.num_samples() == 4);
  std::vector<std::int32_t> tokens(17);
  REQUIRE(set.read(set.at(3), tokens));
  CHECK(tokens.front() == 48);
  CHECK(tokens.back() == 64);  // the last label is the last token
}

TEST_CASE("samples: counts beyond 32 bits are exact", "[data]") {
  const std::int64_t tokens = (std::int64_t{1} << 31) + 64;
  const std::int64_t samples = num_samples(tokens, 4096);
  CHECK(samples == (tokens - 1) / 4096);
  const SampleOrder order = one_source(samples);
  CHECK(order.at(3 * samples - 1).epoch == 2);
  CHECK(order.at(3 * samples).epoch == 3);
  CHECK(num_samples(std::int64_t{50'000'000'000'000}, 8192) == 6'103'515'624);
}

TEST_CASE("samples: a corpus shorter than one sample names the split", "[data]") {
  auto source = std::make_shared<MemorySource>(counting(10), std::vector<std::int64_t>{}, "tiny");
  const auto set = SampleSet::make({{source, 0, 10, 1.0, std::nullopt}},
                                   {16, 100, 1, SampleOrder::Kind::kShuffled, "valid"});
  REQUIRE_FALSE(set);
  CHECK(set.error().code == ErrorCode::kData);
  CHECK(set.error().message ==
        "the valid split of tiny holds 10 tokens; one sample of seq_length 16 needs 17");
}

TEST_CASE("samples: a token outside the vocabulary names source, position, id and limit", "[data]") {
  const SampleSet set = sample_set(65, 16, 60);
  std::vector<std::int32_t> tokens(17);
  CHECK(set.read(set.at(2), tokens));
  const Status status = set.read(set.at(3), tokens);
  REQUIRE_FALSE(status);
  CHECK(status.error().message == "memory: token 60 has id 60; model.vocab_size 60 allows 0 to 59");
}
