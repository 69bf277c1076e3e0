#include <algorithm>
#include <mutex>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/parallel/replica_gradients.hpp"

#include "tests/model/model_numbers.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// Forward and backward of a whole model over tensor-parallel ranks, against one rank, number by number.
using namespace llmtrain;
using namespace llmtrain::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kChunk = 5;  // of 24 tokens: chunks that do not divide

Numbers alone(const ModelSpec& spec, DType compute_type) {
  TestModel model(spec, compute_type, kChunk);
  return compute(model.params, model.transformer, random_batches(spec.vocab_size));
}

double difference_over_ranks(
    const ModelSpec& spec, DType compute_type, int tp, bool shard_sequence = false, int overlap_chunks = 1) {
  const Numbers reference = alone(spec, compute_type);
  double worst = 0;
  std::mutex mutex;
  spawn_ranks(tp, [&](int rank, const auto& region) {
    at::set_num_threads(1);
    MeshComms comms({.shape = {.tp = tp},
                     .global_rank = rank,
                     .tensor_replicas = kv_head_replicas(spec, tp),
                     .region = region,
                     .timeout = 20s,
                     .check_calls = true});
    Communicator& group = comms.axis(Axis::kTensor);
    FlatParameters params(
        parameter_table(spec, {.shard_sequence = shard_sequence}), compute_type, {.rank = rank, .size = tp});
    randomise(params);
    Transformer model(spec,
                      params,
                      {.max_positions = 16,
                       .loss_chunk_tokens = kChunk,
                       .tensor_group = &group,
                       .shard_sequence = shard_sequence,
                       .overlap_chunks = overlap_chunks});
    Numbers own = compute(params, model, random_batches(spec.vocab_size));
    ReplicaGradients replicas(params, group, comms.tensor_replicas());
    for (int s = params.num_segments(); s-- > 0;) replicas.sum(s);
    own.grads = gradients_of(params);
    require(own.tokens == reference.tokens, "labels are counted as on one rank");
    const std::lock_guard lock(mutex);
    worst = std::max(worst, difference(reference, own, params));
  });
  return worst;
}

}  // namespace

TEST_CASE("tensor parallel: loss and every gradient of each model are those of one rank", "[model][ranks]") {
  for (const NamedModel& model : tiny_models())
    for (const int tp : {2, 4})
      for (const bool shard : {false, true}) {
        CAPTURE(model.name, tp, shard);
        CHECK(difference_over_ranks(model.spec, DType::kFp64, tp, shard) < 1e-12);
      }
}

TEST_CASE("tensor parallel: overlap in chunks computes what one rank does", "[model][ranks]") {
  for (const NamedModel& model : tiny_models())
    for (const int chunks : {2, 5, 64})
      for (const bool shard : {false, true}) {
        CAPTURE(model.name, chunks, shard);
        CHECK(difference_over_ranks(model.spec, DType::kFp64, 4, shard, chunks) < 1e-12);
      }
  CHECK(difference_over_ranks(tiny_qwen3(), DType::kBf16, 4, true, 3) < 3e-2);
}

TEST_CASE("tensor parallel: fp32, bf16 and fp16 differ by their rounding only", "[model][ranks]") {
  CHECK(difference_over_ranks(tiny_qwen3(), DType::kFp32, 4) < 2e-6);
  CHECK(difference_over_ranks(tiny_qwen3(), DType::kBf16, 4) < 3e-2);
  CHECK(difference_over_ranks(tiny_qwen3(), DType::kBf16, 4, true) < 3e-2);
  CHECK(difference_over_ranks(tiny_qwen3(), DType::kFp16, 4) < 4e-3);
}

TEST_CASE("tensor parallel: logits of extreme size lose nothing over ranks", "[model][ranks]") {
  ModelSpec spec = tiny_llama();
  spec.init_std = 6.0;  // losses in the hundreds: a softmax of one, far from its label
  CHECK(difference_over_ranks(spec, DType::kFp64, 4) < 1e-11);
  CHECK(difference_over_ranks(spec, DType::kFp32, 4) < 1e-4);
}

TEST_CASE("tensor parallel: a cut vocabulary gives no logits", "[model][ranks]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    const ModelSpec spec = tiny_llama();
    MeshComms comms({.shape = {.tp = 2}, .global_rank = rank, .region = region, .timeout = 20s});
    FlatParameters params(parameter_table(spec), DType::kFp32, {.rank = rank, .size = 2});
    Transformer model(spec, params, {.max_positions = 16, .tensor_group = &comms.axis(Axis::kTensor)});
    bool refused = false;
    try {
      model.logits(random_batch(1, 4, spec.vocab_size).tokens);
    } catch (const std::exception&) {
      refused = true;
    }
    require(refused, "logits of a part of the vocabulary");
  });
}
