// What ranks say that they sent and held, against closed forms: a run that only pretends to be cut is found
// out.
#include "llmtrain/sizing/memory.hpp"
#include "llmtrain/sizing/tensor_traffic.hpp"

#include "tests/train/totals.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

void check_totals(const ModelSpec& model,
                  DType compute,
                  const Layout& layout,
                  const Outcome& outcome,
                  std::int64_t recomputed_in_full = 0) {
  const auto table = parameter_table(model, {.shard_sequence = layout.shard_sequence});
  const std::int64_t passes = kSteps * layout.accumulation;
  const std::int64_t tokens = kTokensPerStep / (layout.dp * layout.accumulation);
  const TensorTraffic pass = training_traffic(model,
                                              {.compute = compute,
                                               .tp = layout.tp,
                                               .shard_sequence = layout.shard_sequence,
                                               .tokens = tokens,
                                               .chunk_tokens = tokens,
                                               .recomputed_in_full = recomputed_in_full,
                                               .overlap_chunks = layout.overlap_chunks});
  const ReplicaTraffic step = replica_traffic(table, compute, layout.tp);
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    CAPTURE(rank);
    const TensorPlace place{.rank = rank % layout.tp, .size = layout.tp};
    CHECK(memory_of(outcome, rank) == static_memory(table, compute, OptimizerSpec{}, place));
    CHECK(total_of(outcome, rank, "tp", "all_reduce") ==
          sum(times(passes, pass.all_reduce), times(kSteps, step.group)));
    CHECK(total_of(outcome, rank, "tp", "all_gather") == times(passes, pass.all_gather));
    CHECK(total_of(outcome, rank, "tp", "reduce_scatter") == times(passes, pass.reduce_scatter));
    CHECK(total_of(outcome, rank, "tp_replicas", "all_reduce") == times(kSteps, step.replicas));
    CHECK(total_of(outcome, rank, "dp", "all_reduce") ==
          times(kSteps, gradient_traffic(table, compute, layout.dp, 0, 0, place)));
  }
}

}  // namespace

TEST_CASE("tensor parallel: bytes sent and held are the closed forms", "[train][ranks]") {
  const std::vector<std::vector<std::string>> jobs = {
      {"precision.compute=fp32"},
      {"precision.compute=bf16", "model={family: qwen2, num_kv_heads: 1}"},
      {"precision.compute=fp32", "model={family: qwen3, num_kv_heads: 2, head_dim: 16}"}};
  for (const auto& overrides : jobs) {
    const ModelSpec model = resolved_model(overrides);
    const DType compute = overrides[0].ends_with("bf16") ? DType::kBf16 : DType::kFp32;
    for (const Layout& layout :
         {Layout{.dp = 2, .accumulation = 2, .tp = 2},
          Layout{.accumulation = 4, .tp = 4},
          Layout{.accumulation = 4, .tp = 4, .shard_sequence = true},
          Layout{.accumulation = 4, .tp = 4, .overlap_chunks = 3},
          Layout{.accumulation = 4, .tp = 4, .shard_sequence = true, .overlap_chunks = 3}}) {
      CAPTURE(overrides, layout.tp, layout.overlap_chunks);
      check_totals(model, compute, layout, train(layout, overrides));
    }
  }
}

TEST_CASE("tensor parallel: what is computed again is sent again", "[train][ranks]") {
  const std::pair<std::string, std::int64_t> modes[] = {{"memory.recompute=selective", 0},
                                                        {"memory.recompute=full", 2},
                                                        {"memory={recompute: full, recompute_layers: 1}", 1}};
  for (const auto& [mode, in_full] : modes) {
    const std::vector<std::string> overrides = {"precision.compute=fp32", mode};
    const ModelSpec model = resolved_model(overrides);
    for (const bool shard : {false, true}) {
      const Layout layout{.accumulation = 2, .tp = 2, .shard_sequence = shard, .overlap_chunks = 2};
      CAPTURE(mode, shard);
      check_totals(model, DType::kFp32, layout, train(layout, overrides), in_full);
    }
  }
}

TEST_CASE("tensor parallel: the matrices of a rank are its share of the model's", "[train][ranks]") {
  ModelSpec model = resolved_model({"model.vocab_size=64"});
  const auto table = parameter_table(model);
  std::int64_t matrices = 0;
  std::int64_t vectors = 0;
  for (const ParamSpec& param : table) (param.shape.size() == 2 ? matrices : vectors) += param.numel();
  for (const int tp : {1, 2})
    CHECK(static_memory(table, DType::kFp32, OptimizerSpec{}, {.rank = tp - 1, .size = tp}).params ==
          (tp == 1 ? 4 * (matrices + vectors) : 4 * (matrices / 2 + vectors)));
}
