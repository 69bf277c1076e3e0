#include <algorithm>
#include <mutex>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/model/sequence_attention.hpp"
#include "llmtrain/parallel/replica_gradients.hpp"
#include "llmtrain/tensor/memory_pool.hpp"

#include "tests/model/model_numbers.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// Forward and backward of a whole model whose sequences are cut over ranks, against one rank.
using namespace llmtrain;
using namespace llmtrain::test;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t kLength = 16;  // a multiple of twice four ranks

struct Layout {
  SequenceMethod method = SequenceMethod::kRing;
  int sp = 2;
  int tp = 1;
  bool shard_sequence = false;
};

MicroBatch own_part(const MicroBatch& whole, const SequenceCut& cut) {
  MicroBatch part{.tokens = zeros_host({whole.tokens.size(0), cut.own_length()}, DType::kFp64).to(at::kLong),
                  .labels = at::Tensor()};
  part.labels = part.tokens.clone();
  std::int64_t column = 0;
  for (const TokenRun& run : cut.runs()) {
    part.tokens.narrow(1, column, run.count).copy_(whole.tokens.narrow(1, run.first, run.count));
    part.labels.narrow(1, column, run.count).copy_(whole.labels.narrow(1, run.first, run.count));
    column += run.count;
  }
  return part;
}

Batches own_parts(const Batches& whole, const SequenceGroup& group) {
  const auto part = [&](const MicroBatch& batch) {
    const std::int64_t length = batch.tokens.size(1);
    return own_part(batch, group.is_alone() ? group.cut(length) : group.cut(length / group.ranks().size()));
  };
  return {.first = part(whole.first), .second = part(whole.second), .evaluated = part(whole.evaluated)};
}

// What the ranks of the group know together.
void sum_over_sequence(Numbers& numbers, Communicator& group) {
  at::Tensor sums = zeros_host({3}, DType::kFp64);  // [3]
  double* const s = sums.data_ptr<double>();
  s[0] = numbers.loss;
  s[1] = numbers.evaluated;
  s[2] = static_cast<double>(numbers.tokens);
  group.all_reduce(sums, ReduceOp::kSum);
  numbers.loss = s[0];
  numbers.evaluated = s[1];
  numbers.tokens = static_cast<std::int64_t>(s[2]);
}

Numbers compute_on_rank(MeshComms& comms,
                        const Layout& layout,
                        const ModelSpec& spec,
                        const Batches& batches,
                        FlatParameters& params) {
  randomise(params);
  Communicator& tensor = comms.axis(Axis::kTensor);
  Communicator& sequence = comms.axis(Axis::kSequence);
  Transformer model(spec,
                    params,
                    {.max_positions = kLength,
                     .loss_chunk_tokens = 5,
                     .tensor_group = &tensor,
                     .shard_sequence = layout.shard_sequence,
                     .sequence_group = &sequence,
                     .sp_method = layout.method});
  Numbers own = compute(params, model, own_parts(batches, SequenceGroup(&sequence, layout.method)));
  ReplicaGradients replicas(params, tensor, comms.tensor_replicas());
  for (int s = 0; s < params.num_segments(); ++s) {
    replicas.sum(s);
    at::Tensor grads = params.segment(s).grads;  // [elements]
    comms.gradient().all_reduce(grads, ReduceOp::kSum);
  }
  own.grads = gradients_of(params);
  sum_over_sequence(own, sequence);
  return own;
}

double difference_over_ranks(const ModelSpec& spec,
                             DType compute_type,
                             const Layout& layout,
                             const Batches& batches) {
  TestModel model(spec, compute_type, 5);
  const Numbers reference = compute(model.params, model.transformer, batches);
  double worst = 0;
  std::mutex mutex;
  spawn_ranks(layout.sp * layout.tp, [&](int rank, const auto& region) {
    at::set_num_threads(1);
    MeshComms comms({.shape = {.sp = layout.sp, .tp = layout.tp},
                     .global_rank = rank,
                     .tensor_replicas = kv_head_replicas(spec, layout.tp),
                     .region = region,
                     .timeout = 20s,
                     .check_calls = true});
    FlatParameters params(parameter_table(spec, {.shard_sequence = layout.shard_sequence}),
                          compute_type,
                          {.rank = rank % layout.tp, .size = layout.tp});
    const Numbers own = compute_on_rank(comms, layout, spec, batches, params);
    require(own.tokens == reference.tokens, "labels are counted as on one rank");
    const std::lock_guard lock(mutex);
    worst = std::max(worst, difference(reference, own, params));
  });
  return worst;
}

double difference_over_ranks(const ModelSpec& spec, DType compute_type, const Layout& layout) {
  return difference_over_ranks(
      spec, compute_type, layout, random_batches(spec.vocab_size, kLength, layout.sp == 2 ? 12 : 8));
}

// Every label ignored but one.
Batches only_label(const Batches& all, std::int64_t token) {
  const auto only = [&](const MicroBatch& batch) {
    MicroBatch one{.tokens = batch.tokens, .labels = batch.labels.clone()};
    one.labels.fill_(kIgnoredLabel);
    one.labels.select(1, token).select(0, 0).fill_(3);
    return one;
  };
  return {.first = only(all.first), .second = only(all.second), .evaluated = all.evaluated};
}

const std::vector<SequenceMethod> kMethods = {
    SequenceMethod::kRing, SequenceMethod::kUlysses, SequenceMethod::kAllGather};

// Bytes of activations at their most while a long micro-batch is trained on, all ranks together.
std::int64_t peak_of_all_ranks(SequenceMethod method, int sp) {
  ModelSpec spec = tiny_llama();
  spec.hidden_size = 64;  // wide and deep enough that what is kept outweighs the kernels' scratch memory
  spec.head_dim = 16;
  spec.ffn_hidden_size = 96;
  spec.num_layers = 6;
  const std::int64_t length = 1024;
  const MicroBatch whole = random_batch(1, length, spec.vocab_size);
  install_host_memory_counter();
  std::int64_t before = 0;
  spawn_ranks(sp, [&](int rank, const auto& region) {
    at::set_num_threads(1);
    MeshComms comms({.shape = {.sp = sp}, .global_rank = rank, .region = region, .timeout = 20s});
    FlatParameters params(parameter_table(spec), DType::kFp32);
    Communicator& sequence = comms.axis(Axis::kSequence);
    Transformer model(
        spec,
        params,
        {.max_positions = length, .loss_chunk_tokens = 16, .sequence_group = &sequence, .sp_method = method});
    const SequenceGroup group(&sequence, method);
    const MicroBatch batch = own_part(whole, group.cut(length / sp));
    comms.world().barrier();
    if (rank == 0) {
      before = host_memory(MemoryPool::kActivations).live_bytes;
      reset_host_memory_peaks();
    }
    comms.world().barrier();
    model.forward(batch, 1.0);
    model.backward();
    comms.world().barrier();
  });
  return host_memory(MemoryPool::kActivations).peak_bytes - before;
}

}  // namespace

TEST_CASE("sequence parallel: loss and every gradient of each model are those of one rank",
          "[model][ranks]") {
  for (const NamedModel& model : tiny_models())
    for (const SequenceMethod method : kMethods)
      for (const int sp : {2, 4}) {
        CAPTURE(model.name, static_cast<int>(method), sp);
        CHECK(difference_over_ranks(model.spec, DType::kFp64, {.method = method, .sp = sp}) < 1e-12);
      }
}

TEST_CASE("sequence parallel: together with tensor parallelism too", "[model][ranks]") {
  for (const NamedModel& model : tiny_models())
    for (const SequenceMethod method : kMethods)
      for (const bool shard : {false, true}) {
        CAPTURE(model.name, static_cast<int>(method), shard);
        const Layout layout{.method = method, .sp = 2, .tp = 2, .shard_sequence = shard};
        CHECK(difference_over_ranks(model.spec, DType::kFp64, layout) < 1e-12);
      }
}

TEST_CASE("sequence parallel: fp32, bf16 and fp16 differ by their rounding only", "[model][ranks]") {
  for (const SequenceMethod method : kMethods) {
    CHECK(difference_over_ranks(tiny_qwen3(), DType::kFp32, {.method = method, .sp = 4}) < 3e-6);
    CHECK(difference_over_ranks(tiny_qwen3(), DType::kBf16, {.method = method, .sp = 4}) < 3e-2);
    CHECK(difference_over_ranks(tiny_qwen3(), DType::kFp16, {.method = method, .sp = 4}) < 4e-3);
  }
}

// A loss that each rank divided by its own count of labels would be off by a factor here.
TEST_CASE("sequence parallel: a single label that counts, wherever it stands", "[model][ranks]") {
  const ModelSpec spec = tiny_gpt2();
  const Batches all = random_batches(spec.vocab_size, kLength, 8);
  for (const SequenceMethod method : kMethods)
    for (const int sp : {2, 4})
      for (const std::int64_t token : {0, 3, 4, 7, 8, 15}) {
        CAPTURE(static_cast<int>(method), sp, token);
        CHECK(difference_over_ranks(
                  spec, DType::kFp64, {.method = method, .sp = sp}, only_label(all, token)) < 1e-12);
      }
}

// Were sequences not really cut, four ranks would hold four times as much.
TEST_CASE("sequence parallel: activations of all ranks together are those of one", "[model][ranks]") {
  for (const SequenceMethod method : kMethods) {
    const std::int64_t alone = peak_of_all_ranks(method, 1);
    const std::int64_t together = peak_of_all_ranks(method, 4);
    CAPTURE(static_cast<int>(method), alone, together);
    CHECK(together < alone + alone / 2);
  }
}
