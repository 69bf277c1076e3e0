#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/model/sequence_attention.hpp"

#include "tests/model/model_numbers.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// What ranks compute again together, collectives included, changes no bit either.
using namespace llmtrain;
using namespace llmtrain::test;
using namespace std::chrono_literals;

namespace {

struct Layout {
  SequenceMethod method = SequenceMethod::kRing;
  bool shard_sequence = false;
};

Numbers numbers_of(MeshComms& comms, const ModelSpec& spec, const Layout& layout, const MemorySpec& memory) {
  Communicator& tensor = comms.axis(Axis::kTensor);
  FlatParameters params(parameter_table(spec, {.shard_sequence = layout.shard_sequence}),
                        DType::kFp32,
                        {.rank = tensor.rank(), .size = tensor.size()});
  randomise(params);
  Transformer model(spec,
                    params,
                    {.max_positions = 16,
                     .tensor_group = &tensor,
                     .shard_sequence = layout.shard_sequence,
                     .sequence_group = &comms.axis(Axis::kSequence),
                     .sp_method = layout.method,
                     .memory = memory});
  return compute(params, model, random_batches(spec.vocab_size, 8, 4));
}

}  // namespace

TEST_CASE("recompute: over tensor and sequence parallel ranks results are bit-equal too", "[model][ranks]") {
  const ModelSpec spec = tiny_qwen3();
  for (const Layout& layout : {Layout{},
                               Layout{.shard_sequence = true},
                               Layout{.method = SequenceMethod::kUlysses, .shard_sequence = true},
                               Layout{.method = SequenceMethod::kAllGather}})
    spawn_ranks(4, [&](int rank, const auto& region) {
      at::set_num_threads(1);
      MeshComms comms({.shape = {.sp = 2, .tp = 2},
                       .global_rank = rank,
                       .tensor_replicas = kv_head_replicas(spec, 2),
                       .region = region,
                       .timeout = 20s,
                       .check_calls = true});
      const Numbers kept = numbers_of(comms, spec, layout, {});
      for (const Recompute mode : {Recompute::kSelective, Recompute::kFull}) {
        const Numbers again = numbers_of(comms, spec, layout, {.recompute = mode});
        require(again.loss == kept.loss && again.evaluated == kept.evaluated, "the losses are the same");
        require(again.grads == kept.grads, "the gradients are the same");
      }
    });
}
