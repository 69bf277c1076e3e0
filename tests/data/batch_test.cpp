#include "llmtrain/data/batch.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "llmtrain/data/batch_loader.hpp"

#include "tests/data/memory_source.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using test::counting;
using test::MemorySource;

namespace {

std::shared_ptr<const SampleSet> samples(std::int64_t count,
                                         std::optional<double> max_epochs = std::nullopt,
                                         SampleOrder::Kind kind = SampleOrder::Kind::kShuffled,
                                         std::int64_t vocab_size = 1 << 20) {
  auto source = std::make_shared<MemorySource>(counting(count * 4 + 1));
  auto set =
      SampleSet::make({{source, 0, count * 4 + 1, 1.0, max_epochs}}, {4, vocab_size, 7, kind, "train"});
  return std::make_shared<SampleSet>(std::move(set).value());
}

// The samples of one step over all ranks, in the order of the global sample index.
std::vector<std::int64_t> ids_of_step(const SampleSet& set, BatchShape shape, std::int64_t step) {
  std::map<std::int64_t, std::int64_t> by_index;
  for (shape.dp_rank = 0; shape.dp_rank < shape.dp_size; ++shape.dp_rank) {
    for (std::int64_t micro = 0; micro < shape.num_micro_batches(); ++micro) {
      const TokenBatch batch = load_batch(set, shape, step, micro).value();
      for (int row = 0; row < batch.rows; ++row) {
        by_index[global_sample_index(shape, step, micro, row)] =
            batch.sample_ids[static_cast<std::size_t>(row)];
      }
    }
  }
  std::vector<std::int64_t> ids;
  for (const auto& [index, id] : by_index) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("batch: the samples of a step depend on the global batch alone",
          "[data]") {  // mosaicml/streaming#725
  const auto set = samples(50);
  for (const std::int64_t step : {1, 2, 7, 100}) {
    const auto expected = ids_of_step(*set, {.global_batch_size = 24, .micro_batch_size = 24}, step);
    CHECK(expected.size() == 24);
    for (const int dp : {1, 2, 4, 8}) {
      for (const std::int64_t micro : {1, 3}) {
        CHECK(ids_of_step(*set, {.global_batch_size = 24, .micro_batch_size = micro, .dp_size = dp}, step) ==
              expected);
      }
    }
  }
}

TEST_CASE("batch: rows hold the tokens of their samples", "[data]") {
  const auto set = samples(50);
  const TokenBatch batch =
      load_batch(*set, {.global_batch_size = 6, .micro_batch_size = 3, .dp_rank = 1, .dp_size = 2}, 2, 0)
          .value();
  REQUIRE(batch.rows == 3);
  REQUIRE(batch.tokens.size() == 15);
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 5; ++column) {
      CHECK(batch.tokens[static_cast<std::size_t>(row * 5 + column)] ==
            batch.sample_ids[static_cast<std::size_t>(row)] * 4 + column);
    }
  }
}

TEST_CASE("batch: documents begin where the source says, and each row with one", "[data]") {
  // Documents of 3, 0, 4, 1 and 12 tokens; samples of 5.
  const MemorySource source(counting(20), {0, 3, 3, 7, 8, 20});
  using Begins = std::vector<std::int64_t>;
  CHECK(document_begins(source, 0, 5) == Begins{0, 3});
  CHECK(document_begins(source, 5, 5) == Begins{0, 2, 3});
  CHECK(document_begins(source, 7, 1) == Begins{0});
  CHECK(document_begins(source, 10, 10) == Begins{0});
  const auto set = samples(50);
  BatchShape shape{.global_batch_size = 6, .micro_batch_size = 3, .finds_documents = true};
  CHECK(load_batch(*set, shape, 1, 0)->document_begins == std::vector<Begins>(3, Begins{0}));
  CHECK(EvalPlan(*set, 3, shape).load(0)->document_begins == std::vector<Begins>(3, Begins{0}));
  shape.finds_documents = false;  // nobody looks for what nobody asks for
  CHECK(load_batch(*set, shape, 1, 0)->document_begins.empty());
}

TEST_CASE("batch: shapes that do not divide are refused", "[data]") {
  CHECK(check_shape({.global_batch_size = 8, .micro_batch_size = 2, .dp_size = 4}));
  CHECK_FALSE(check_shape({.global_batch_size = 9, .micro_batch_size = 2, .dp_size = 4}));
  CHECK_FALSE(check_shape({.global_batch_size = 4, .micro_batch_size = 2, .dp_size = 4}));
  CHECK_FALSE(check_shape({.global_batch_size = 4, .micro_batch_size = 0}));
  CHECK_FALSE(check_shape({.global_batch_size = 4, .dp_rank = 1, .dp_size = 1}));
}

TEST_CASE("eval plan: each sample is counted once, also when ranks do not divide",
          "[data]") {  // karpathy/llm.c#584
  for (const std::int64_t count : {10, 3, 8, 16, 17}) {
    const auto set = samples(count, 1.0, SampleOrder::Kind::kSequential);
    for (const int dp : {1, 2, 8}) {
      for (const std::int64_t micro : {1, 2}) {
        std::vector<std::int64_t> seen;
        std::int64_t calls = -1;
        for (int rank = 0; rank < dp; ++rank) {
          const EvalPlan plan(*set, 1000, {.micro_batch_size = micro, .dp_rank = rank, .dp_size = dp});
          CHECK(plan.num_samples() == count);
          CHECK((calls < 0 || calls == plan.num_micro_batches()));
          calls = plan.num_micro_batches();
          for (std::int64_t i = 0; i < calls; ++i) {
            const TokenBatch batch = plan.load(i).value();
            CHECK(batch.tokens.size() == static_cast<std::size_t>(batch.rows) * 5);
            seen.insert(seen.end(), batch.sample_ids.begin(), batch.sample_ids.end());
          }
        }
        std::sort(seen.begin(), seen.end());
        REQUIRE(seen.size() == static_cast<std::size_t>(count));
        for (std::int64_t i = 0; i < count; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
      }
    }
  }
}

TEST_CASE("eval plan: asked for less, it takes the first samples", "[data]") {
  const auto set = samples(10, 1.0, SampleOrder::Kind::kSequential);
  const EvalPlan plan(*set, 4, {.micro_batch_size = 3});
  CHECK(plan.num_samples() == 4);
  CHECK(plan.load(1)->sample_ids == std::vector<std::int64_t>{3});
}

TEST_CASE("batch loader: hands out what load_batch says, from any step on", "[data]") {
  const auto set = samples(50);
  const BatchShape shape{.global_batch_size = 12, .micro_batch_size = 2, .dp_rank = 1, .dp_size = 2};
  for (const std::int64_t first : {1, 9}) {
    auto loader = BatchLoader::start(set, shape, {.first_step = first, .prefetch = 3});
    REQUIRE(loader);
    for (std::int64_t step = first; step < first + 5; ++step) {
      for (std::int64_t micro = 0; micro < 3; ++micro) {
        const TokenBatch batch = loader->next().value();
        CHECK(batch.step == step);
        CHECK(batch.micro_batch == micro);
        CHECK(batch.sample_ids == load_batch(*set, shape, step, micro)->sample_ids);
      }
    }
    CHECK(loader->waited_seconds() >= 0);
  }
}

TEST_CASE("batch loader: the end of capped data arrives at its step and stays",
          "[data]") {                // allenai/OLMo#584
  const auto set = samples(8, 2.5);  // 20 samples
  auto loader = BatchLoader::start(set, {.global_batch_size = 4, .micro_batch_size = 4}, {.prefetch = 8});
  for (int step = 1; step <= 5; ++step) CHECK(loader->next());
  for (int again = 0; again < 2; ++again) {
    const auto batch = loader->next();
    REQUIRE_FALSE(batch);
    CHECK(batch.error().message ==
          "step 6 needs samples up to 24, and max_epochs of every source ends the data at 20");
  }
}

TEST_CASE("batch loader: a bad token arrives as an error", "[data]") {
  const auto set = samples(8, std::nullopt, SampleOrder::Kind::kSequential, 20);
  auto loader = BatchLoader::start(set, {.global_batch_size = 2, .micro_batch_size = 2}, {});
  CHECK(loader->next());
  CHECK(loader->next());
  const auto batch = loader->next();
  REQUIRE_FALSE(batch);
  CHECK(batch.error().code == ErrorCode::kData);
}

TEST_CASE("batch loader: stops at once while its queue is full", "[data]") {
  for (int i = 0; i < 50; ++i) {
    auto loader =
        BatchLoader::start(samples(8), {.global_batch_size = 2, .micro_batch_size = 1}, {.prefetch = 2});
    if (i % 2 == 0) CHECK(loader->next());
  }
  CHECK_FALSE(BatchLoader::start(samples(8), {}, {.prefetch = 0}));
}
