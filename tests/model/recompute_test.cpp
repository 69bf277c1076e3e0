#include "llmtrain/placement/recompute.hpp"

#include <functional>

#include "llmtrain/tensor/memory_pool.hpp"

#include "tests/model/model_numbers.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"

// What is computed again instead of kept changes no bit of any result, and the memory that it frees is the
// memory that it should.
using namespace llmtrain;
using namespace llmtrain::test;

namespace {

const std::vector<MemorySpec> kModes = {{.recompute = Recompute::kSelective},
                                        {.recompute = Recompute::kFull},
                                        {.recompute = Recompute::kFull, .recompute_layers = 1}};

Numbers numbers_of(const ModelSpec& spec, DType type, const MemorySpec& memory, bool defers) {
  TestModel model(spec, type, 5, memory);
  return compute(model.params, model.transformer, random_batches(spec.vocab_size), defers);
}

// A llama whose sizes are all different.
ModelSpec llama_of(std::int64_t layers) {
  ModelSpec spec = tiny_mistral();
  spec.num_layers = layers;
  spec.hidden_size = 48;
  spec.ffn_hidden_size = 104;
  return spec;
}

struct Activations {
  std::int64_t kept = 0;  // between forward and backward
  std::int64_t peak = 0;
};

constexpr std::int64_t kTokens = 2 * 16;

Activations activations_of(std::int64_t layers, Recompute recompute) {
  install_host_memory_counter();
  TestModel model(llama_of(layers), DType::kFp32, 5, {.recompute = recompute});
  const MicroBatch batch = random_batch(2, 16, 37);
  const std::int64_t before = host_memory(MemoryPool::kActivations).live_bytes;
  reset_host_memory_peaks();
  model.transformer.forward(batch, 1.0);
  const std::int64_t kept = host_memory(MemoryPool::kActivations).live_bytes - before;
  model.transformer.backward();
  return {.kept = kept, .peak = host_memory(MemoryPool::kActivations).peak_bytes - before};
}

// Bytes that one block more keeps.
std::int64_t bytes_of_block(Recompute recompute) {
  const ModelSpec m = llama_of(1);
  const std::int64_t h = m.hidden_size;
  const std::int64_t n = m.num_heads;
  const std::int64_t qkv = (n + 2 * *m.num_kv_heads) * *m.head_dim;
  const std::int64_t f = *m.ffn_hidden_size;
  const std::int64_t input = h;
  const std::int64_t products = qkv + h + 2 * f;  // qkv, middle, gate and up
  const std::int64_t others =
      2 * (h + 1) + n * *m.head_dim + n + f;  // norms, attention with its lse, activation
  const std::int64_t floats = recompute == Recompute::kFull        ? input
                              : recompute == Recompute::kSelective ? input + products
                                                                   : input + products + others;
  return kTokens * floats * 4;
}

}  // namespace

TEST_CASE("recompute: losses and gradients of every model are bit-equal in every mode", "[model]") {
  for (const NamedModel& model : tiny_models())
    for (const DType type : {DType::kFp32, DType::kFp64, DType::kBf16}) {
      const Numbers kept = numbers_of(model.spec, type, {}, false);
      for (const MemorySpec& memory : kModes)
        for (const bool defers : {false, true}) {
          CAPTURE(model.name, to_string(type), static_cast<int>(memory.recompute), defers);
          const Numbers again = numbers_of(model.spec, type, memory, defers);
          CHECK(again.loss == kept.loss);
          CHECK(again.evaluated == kept.evaluated);
          CHECK(again.grads == kept.grads);
        }
    }
}

TEST_CASE("recompute: a block keeps what the mode says, to the byte", "[model]") {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    CAPTURE(static_cast<int>(mode));
    CHECK(activations_of(5, mode).kept - activations_of(2, mode).kept == 3 * bytes_of_block(mode));
  }
}

TEST_CASE("recompute: in full, all but one block cost their input only", "[model]") {
  const std::int64_t one = activations_of(1, Recompute::kFull).peak;
  CHECK(activations_of(7, Recompute::kFull).peak == one + 6 * bytes_of_block(Recompute::kFull));
  CHECK(one <= activations_of(1, Recompute::kNone).peak + bytes_of_block(Recompute::kFull));
}

TEST_CASE("recompute: the first blocks of a chunk, or all", "[model]") {
  MemorySpec memory{.recompute = Recompute::kFull};
  CHECK(recomputed_blocks(memory, 4) == 4);
  CHECK(recompute_of(memory, 3) == Recompute::kFull);
  memory.recompute_layers = 2;
  CHECK(recomputed_blocks(memory, 4) == 2);
  CHECK(recomputed_blocks(memory, 1) == 1);
  CHECK(recompute_of(memory, 1) == Recompute::kFull);
  CHECK(recompute_of(memory, 2) == Recompute::kNone);
  CHECK(recomputed_blocks({.recompute_layers = 2}, 4) == 0);
}
