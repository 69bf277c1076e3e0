#include <cmath>
#include <memory>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/model/kv_cache.hpp"

#include "tests/model/model_fixture.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

// max |a - b| / max |a| over all main gradients.
double gradient_difference(const FlatParameters& a, const FlatParameters& b) {
  double worst = 0.0;
  for (int i = 0; i < a.num_segments(); ++i)
    worst = std::max(worst,
                     difference(a.segment(i).grads, b.segment(i).grads) /
                         a.segment(i).grads.abs().max().to(at::kDouble).item<double>());
  return worst;
}

MicroBatch rows(const MicroBatch& batch, std::int64_t first, std::int64_t count) {
  return {.tokens = batch.tokens.narrow(0, first, count), .labels = batch.labels.narrow(0, first, count)};
}

}  // namespace

TEST_CASE("model: a zero head gives ln V", "[model]") {
  for (const DType type : {DType::kFp32, DType::kFp64, DType::kBf16}) {
    TestModel model(tiny_llama(), type);
    at::Tensor head = model.params.slice("lm_head.weight").weight;
    head.zero_();
    const LossSums sums = model.transformer.evaluate(random_batch(3, 9, 37));
    CHECK(sums.loss / static_cast<double>(sums.tokens) == Approx(std::log(37.0)).epsilon(1e-6));
  }
}

TEST_CASE("model: loss sums what is counted, and a batch of ignored labels is nothing", "[model]") {
  TestModel model(tiny_llama(), DType::kFp64);
  MicroBatch batch = random_batch(2, 8, 37);
  const at::Tensor logits = model.transformer.logits(batch.tokens).view({16, 37});
  const at::Tensor logp = at::log_softmax(logits, 1);
  double expected = 0;
  std::int64_t counted = 0;
  for (std::int64_t i = 0; i < 16; ++i) {
    const std::int64_t label = batch.labels.view({16})[i].item<std::int64_t>();
    if (label == kIgnoredLabel) continue;
    expected -= logp[i][label].item<double>();
    ++counted;
  }
  const LossSums sums = model.transformer.evaluate(batch);
  CHECK(sums.tokens == counted);
  CHECK(counted < 16);
  CHECK(sums.loss == Approx(expected).epsilon(1e-12));

  batch.labels.fill_(kIgnoredLabel);
  const LossSums none = model.transformer.forward(batch, 1.0);
  CHECK(none.tokens == 0);
  CHECK(none.loss == 0.0);
  model.transformer.backward();
  for (int i = 0; i < model.params.num_segments(); ++i)
    CHECK(model.params.segment(i).grads.abs().max().item<double>() == 0.0);
}

TEST_CASE("model: the chunk of the loss does not change loss or gradients", "[model]") {
  const MicroBatch batch = random_batch(2, 8, 37);
  TestModel whole(tiny_qwen2(), DType::kFp64, 16);
  const double loss = whole.transformer.forward(batch, 0.25).loss;
  whole.transformer.backward();
  for (const std::int64_t chunk : {1, 3, 7, 15, 1000}) {
    TestModel cut(tiny_qwen2(), DType::kFp64, chunk);
    CHECK(cut.transformer.forward(batch, 0.25).loss == Approx(loss).epsilon(1e-13));
    cut.transformer.backward();
    CHECK(gradient_difference(whole.params, cut.params) < 1e-13);
  }
}

TEST_CASE("model: micro-batches add up to the batch, whatever the cut and the order of passes", "[model]") {
  const MicroBatch batch = random_batch(4, 6, 37);
  for (const auto& [name, spec] : tiny_models()) {
    INFO("model " << name);
    TestModel whole(spec, DType::kFp64);
    LossSums expected = whole.transformer.forward(batch, 0.5);
    whole.transformer.backward();

    TestModel cut(spec, DType::kFp64);
    LossSums sums;
    // Two passes in flight at once, as a pipeline would have.
    sums += cut.transformer.forward(rows(batch, 0, 1), 0.5);
    sums += cut.transformer.forward(rows(batch, 1, 2), 0.5);
    cut.transformer.backward();
    sums += cut.transformer.forward(rows(batch, 3, 1), 0.5);
    cut.transformer.backward();
    cut.transformer.backward();
    CHECK(sums.tokens == expected.tokens);
    CHECK(sums.loss == Approx(expected.loss).epsilon(1e-13));
    CHECK(gradient_difference(whole.params, cut.params) < 1e-13);
    CHECK_THROWS_AS(cut.transformer.backward(), CheckFailure);
  }
}

TEST_CASE("model: narrow gradients accumulate in fp32", "[model]") {
  const DType type = GENERATE(DType::kBf16, DType::kFp16);
  // The same micro-batch n times is n times its gradient to fp32 rounding; a sum kept in bf16, or a
  // product rounded to it, would be off by parts in a hundred or thousand.
  const MicroBatch batch = random_batch(2, 8, 37);
  TestModel once(tiny_qwen3(), type);
  once.transformer.forward(batch, 1.0);
  once.transformer.backward();
  TestModel often(tiny_qwen3(), type);
  const int n = 64;
  for (int i = 0; i < n; ++i) {
    often.transformer.forward(batch, 1.0);
    often.transformer.backward();
  }
  for (int i = 0; i < once.params.num_segments(); ++i) {
    const at::Tensor expected = once.params.segment(i).grads * n;
    CHECK(difference(often.params.segment(i).grads, expected) < 3e-6 * expected.abs().max().item<float>());
    CHECK(often.params.segment(i).grads.scalar_type() == at::kFloat);
  }
}

TEST_CASE("model: a narrow weight gradient keeps fp32 digits", "[model]") {
  const DType type = GENERATE(DType::kBf16, DType::kFp16);
  TestModel model(tiny_llama(), type);
  model.transformer.forward(random_batch(4, 8, 37), 1.0);
  model.transformer.backward();
  for (const char* name : {"model.layers.0.mlp.up_proj.weight",
                           "model.layers.1.self_attn.q_proj.weight",
                           "lm_head.weight",
                           "model.norm.weight"}) {
    INFO(name);
    const at::Tensor grad = model.params.slice(name).grad;
    const at::Tensor rounded = grad.to(scalar_type(type)).to(at::kFloat);
    CHECK(grad.ne(rounded).to(at::kDouble).mean().item<double>() > 0.5);
  }
}

TEST_CASE("model: bf16 and fp16 are fp64 to their rounding", "[model]") {
  const auto [type, tolerance] =
      GENERATE(table<DType, double>({{DType::kBf16, 0.1}, {DType::kFp16, 0.0125}}));
  const MicroBatch batch = random_batch(2, 8, 37);
  for (const auto& [name, spec] : tiny_models()) {
    INFO("model " << name);
    TestModel narrow(spec, type);
    TestModel wide(spec, DType::kFp64);
    const double expected = wide.transformer.forward(batch, 1.0).loss;
    CHECK(narrow.transformer.forward(batch, 1.0).loss == Approx(expected).epsilon(tolerance / 5));
    wide.transformer.backward();
    narrow.transformer.backward();
    CHECK(gradient_difference(wide.params, narrow.params) < tolerance);
  }
}

TEST_CASE("model: segments report from the head down, after their gradients are complete", "[model]") {
  TestModel model(tiny_llama(), DType::kFp64);
  TestModel reference(tiny_llama(), DType::kFp64);
  const MicroBatch batch = random_batch(2, 5, 37);
  reference.transformer.forward(batch, 1.0);
  reference.transformer.backward();
  model.transformer.forward(batch, 1.0);
  std::vector<SegmentIndex> order;
  model.transformer.backward([&](SegmentIndex segment) {
    order.push_back(segment);
    CHECK(difference(model.params.segment(segment).grads, reference.params.segment(segment).grads) == 0.0);
  });
  CHECK((order == std::vector<SegmentIndex>{3, 2, 1, 0}));
}

TEST_CASE("model: a backward in two halves is one, and the first adds nothing to weights", "[model]") {
  const MicroBatch batch = random_batch(2, 5, 37);
  for (const ModelSpec& spec : {tiny_gpt2(), tiny_qwen3()}) {
    TestModel whole(spec, DType::kFp64);
    whole.transformer.forward(batch, 1.0);
    whole.transformer.backward();
    TestModel halves(spec, DType::kFp64);
    ModelChunk& chunk = halves.transformer.chunk();
    chunk.forward(0, batch, {}, 1.0);
    std::vector<at::Tensor> after_forward;  // the loss has written the head matrix
    for (int s = 0; s < halves.params.num_segments(); ++s)
      after_forward.push_back(halves.params.segment(s).grads.clone());
    chunk.input_gradient(0, {});
    for (int s = 0; s < halves.params.num_segments(); ++s)
      CHECK(difference(halves.params.segment(s).grads, after_forward[static_cast<std::size_t>(s)]) == 0.0);
    CHECK(gradient_difference(whole.params, halves.params) > 1e-3);
    CHECK(chunk.num_kept() == 1);
    chunk.weight_gradient(0, {});
    CHECK(chunk.num_kept() == 0);
    CHECK(gradient_difference(whole.params, halves.params) == 0.0);
  }
}

TEST_CASE("model: chunks that hand on to each other are the whole model", "[model]") {
  const MicroBatch batch = random_batch(2, 5, 37);
  TestModel whole(tiny_llama(), DType::kFp64);
  TestModel cut(tiny_llama(), DType::kFp64);
  const LossSums expected = whole.transformer.forward(batch, 1.0);
  whole.transformer.backward();
  const TransformerOptions options{.max_positions = 16};
  std::vector<ModelChunk> chunks;  // the embedding alone, a block, a block and the head
  for (const SegmentRange& range : {SegmentRange{0, 1}, SegmentRange{1, 2}, SegmentRange{2, 4}})
    chunks.emplace_back(tiny_llama(), cut.params, range, options);
  at::Tensor hidden;
  LossSums loss;
  for (ModelChunk& chunk : chunks) {
    const ChunkOutput out = chunk.forward(3, batch, hidden, 1.0);
    hidden = out.hidden;
    loss += out.loss;
  }
  CHECK(loss.loss == expected.loss);
  at::Tensor grad;
  std::vector<SegmentIndex> order;
  for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk)
    grad = chunk->backward(3, grad, [&](SegmentIndex segment) { order.push_back(segment); });
  CHECK_FALSE(grad.defined());
  CHECK((order == std::vector<SegmentIndex>{3, 2, 1, 0}));
  CHECK(gradient_difference(whole.params, cut.params) == 0.0);
}

TEST_CASE("model: chunks compute with the position tables that they share", "[model]") {
  const MicroBatch batch = random_batch(2, 5, 37);
  ModelSpec other = tiny_llama();
  other.rope_theta = 7;
  TestModel model(tiny_llama(), DType::kFp64);
  const auto loss = [&](const ModelSpec& spec, const RopeTables& rope) {
    Transformer transformer(spec, model.params, {.max_positions = 16, .rope = rope});
    return transformer.evaluate(batch).loss;
  };
  const RopeTables shared = position_tables(other, 16, DType::kFp64);
  CHECK(loss(tiny_llama(), shared) == loss(other, {}));
  CHECK(loss(tiny_llama(), shared) != loss(tiny_llama(), {}));
  CHECK_FALSE(position_tables(tiny_gpt2(), 16, DType::kFp64).defined());
}

TEST_CASE("model: evaluation leaves gradients and the next step alone", "[model]") {
  const MicroBatch batch = random_batch(2, 5, 37);
  TestModel plain(tiny_llama(), DType::kFp32);
  plain.transformer.forward(batch, 1.0);
  plain.transformer.backward();
  TestModel watched(tiny_llama(), DType::kFp32);
  const double first = watched.transformer.evaluate(batch).loss;
  CHECK(watched.transformer.evaluate(batch).loss == first);
  watched.transformer.forward(batch, 1.0);
  CHECK(watched.transformer.evaluate(batch).loss == first);
  watched.transformer.backward();
  CHECK(gradient_difference(plain.params, watched.params) == 0.0);
}

TEST_CASE("model: the number of threads changes rounding only, and each number repeats itself", "[model]") {
  ModelSpec spec = tiny_qwen3();
  spec.hidden_size = 128;  // wide enough that rows are really shared out
  spec.ffn_hidden_size = 512;
  const MicroBatch batch = random_batch(8, 16, 37);
  std::vector<std::unique_ptr<TestModel>> models;
  for (const int threads : {1, 2, 2}) {
    models.push_back(std::make_unique<TestModel>(spec, DType::kFp64));
    at::set_num_threads(threads);
    models.back()->transformer.forward(batch, 1.0);
    models.back()->transformer.backward();
  }
  at::set_num_threads(1);
  CHECK(gradient_difference(models[0]->params, models[1]->params) < 1e-12);
  CHECK(gradient_difference(models[1]->params, models[2]->params) == 0.0);
}

TEST_CASE("model: cached generation equals the full forward", "[model]") {
  for (const auto& [name, spec] : tiny_models()) {
    INFO("model " << name);
    TestModel model(spec, DType::kFp32);
    const at::Tensor tokens = random_batch(2, 12, 37).tokens;
    const at::Tensor full = model.transformer.logits(tokens);
    KvCache cache = model.transformer.make_cache(2, 12);
    std::int64_t at = 0;
    for (const std::int64_t count : {5, 1, 1, 3, 2}) {  // prompt, tokens, a longer continuation
      const at::Tensor part = model.transformer.logits(tokens.narrow(1, at, count), cache);
      CHECK(difference(part, full.narrow(1, at, count)) < 1e-5 * full.abs().max().item<float>());
      at += count;
    }
    CHECK(cache.length() == 12);
    CHECK_THROWS_AS(model.transformer.logits(tokens.narrow(1, 0, 1), cache), CheckFailure);
    cache.truncate(5);
    CHECK(difference(model.transformer.logits(tokens.narrow(1, 5, 7), cache), full.narrow(1, 5, 7)) <
          1e-5 * full.abs().max().item<float>());
  }
}

TEST_CASE("model: a token or label outside the vocabulary is refused by name", "[model]") {
  TestModel model(tiny_llama(), DType::kFp32);
  MicroBatch batch = random_batch(1, 4, 37);
  batch.tokens.fill_(37);
  CHECK_THROWS_WITH(model.transformer.forward(batch, 1.0),
                    Catch::Contains("token 37") && Catch::Contains("37"));
  batch = random_batch(1, 4, 37);
  batch.labels.fill_(-1);
  CHECK_THROWS_WITH(model.transformer.forward(batch, 1.0), Catch::Contains("label -1"));
  CHECK_THROWS_AS(model.transformer.forward(random_batch(1, 17, 37), 1.0), CheckFailure);  // 16 positions
}

TEST_CASE("model: a NaN in the weights comes out as a NaN loss", "[model]") {
  for (const DType type : {DType::kFp32, DType::kBf16}) {
    TestModel model(tiny_llama(), type);
    at::Tensor weight = model.params.slice("model.layers.0.mlp.down_proj.weight").weight;
    weight.fill_(std::nan(""));
    CHECK(std::isnan(model.transformer.forward(random_batch(1, 4, 37), 1.0).loss));
    model.transformer.backward();
    CHECK(std::isnan(model.params.segment(0).grads.sum().item<float>()));
  }
}
