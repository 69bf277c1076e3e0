// The closed forms against the memory that the tensor plane really makes.
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/sizing/memory.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("memory: the closed form is what a rank allocates", "[sizing]") {
  ModelSpec model;
  model.vocab_size = 101;
  model.hidden_size = 33;  // nothing divides the padding
  model.num_layers = 2;
  model.num_heads = 3;
  model.num_kv_heads = 1;
  model.head_dim = 11;
  model.ffn_hidden_size = 45;
  model.max_position = 16;
  model.tie_embeddings = GENERATE(false, true);
  const auto table = parameter_table(model);
  const DType compute = GENERATE(DType::kFp32, DType::kBf16, DType::kFp64);
  OptimizerSpec spec;
  spec.name = GENERATE(OptimizerKind::kAdamW, OptimizerKind::kSgd);
  spec.momentum = GENERATE(0.0, 0.9);

  const TensorPlace place{.rank = GENERATE(0, 2), .size = 3};  // a head each; 101 rows are not divided by 3

  const ZeroPlace zero{.stage = GENERATE(0, 1, 2, 3), .rank = 1, .size = 2};

  const FlatParameters parameters(table, compute, place, zero);
  const BufferBytes bytes = parameters.bytes();
  StaticMemory found{.params = bytes.weights, .grads = bytes.grads, .optimizer = bytes.masters};
  std::vector<OptimizerSlice> slices;
  std::int64_t buffers = 0;
  for (int i = 0; i < parameters.num_segments(); ++i) {
    const SegmentParameters& segment = parameters.segment(i);
    if (segment.empty()) continue;
    ++buffers;
    for (const ParamSlice& s : segment.slices)
      if (s.owned.size() > 0)
        slices.push_back({s.spec->name, s.own_weight, s.master, s.own_grad, s.spec->decay});
  }
  found.optimizer += make_optimizer(spec, slices)->state_bytes();
  CHECK(found == static_memory(table, compute, spec, place, zero));
  if (zero.stage == 0)
    CHECK(gradient_traffic(table, compute, 2, 0, 0, place) == Traffic{buffers, found.grads});
}
