// What ranks say that they sent and held, against closed forms: state that is only said to be sharded is
// found out.
#include "llmtrain/sizing/shard_traffic.hpp"

#include "tests/train/totals.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

void check_totals(const ModelSpec& model,
                  NumberFormats formats,
                  const Layout& layout,
                  const Outcome& outcome) {
  const DType compute = formats.compute;
  const auto table = parameter_table(model, {.shard_sequence = layout.shard_sequence});
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    CAPTURE(rank);
    const TensorPlace place{.rank = rank % layout.tp, .size = layout.tp};
    const bool hybrid = layout.dp_shard != 0 && layout.zero > 0;
    const int sharers = hybrid ? layout.dp_shard : layout.dp;
    const ZeroPlace zero{.stage = layout.zero,
                         .rank = rank / layout.tp % sharers,
                         .size = sharers,
                         .copies = layout.dp / sharers};
    const std::string axis = hybrid ? "dp_shard" : "dp";
    CHECK(memory_of(outcome, rank) == static_memory(table, compute, OptimizerSpec{}, place, zero));
    const ShardTraffic step = step_traffic(table, formats, layout.accumulation, zero, place);
    const Traffic start = start_traffic(table, compute, zero, place);
    CHECK(total_of(outcome, rank, axis, "all_reduce") == times(kSteps, step.all_reduce));
    CHECK(total_of(outcome, rank, axis, "reduce_scatter") == times(kSteps, step.reduce_scatter));
    CHECK(total_of(outcome, rank, axis, "all_gather") == sum(start, times(kSteps, step.all_gather)));
    CHECK(total_of(outcome, rank, "dp_replicas", "all_reduce") == times(kSteps, step.copies));
  }
}

}  // namespace

TEST_CASE("zero: bytes sent and held are the closed forms of every stage", "[train][ranks]") {
  const std::vector<std::vector<std::string>> jobs = {
      {"precision.compute=fp32"},
      {"precision.compute=bf16", "model={family: qwen2, tie_embeddings: true}"},
      {"precision.compute=fp64", "model={num_layers: 3}"}};
  for (const auto& overrides : jobs) {
    const ModelSpec model = resolved_model(overrides);
    const DType compute = overrides[0].ends_with("bf16")   ? DType::kBf16
                          : overrides[0].ends_with("fp64") ? DType::kFp64
                                                           : DType::kFp32;
    for (Layout layout : {Layout{.dp = 4, .accumulation = 2},
                          Layout{.dp = 2, .accumulation = 4, .tp = 2},
                          Layout{.dp = 4, .accumulation = 2, .dp_shard = 2}})
      for (const int stage : {0, 1, 2, 3}) {
        layout.zero = stage;
        CAPTURE(overrides, layout.dp, layout.tp, stage);
        check_totals(model, compute, layout, train(layout, overrides));
      }
  }
}

TEST_CASE("zero: gradients that travel in bf16 are half the bytes", "[train][ranks]") {
  const std::vector<std::string> overrides = {"precision={compute: fp32, reduce: bf16}"};
  const ModelSpec model = resolved_model(overrides);
  for (Layout layout :
       {Layout{.dp = 4, .accumulation = 2}, Layout{.dp = 4, .accumulation = 2, .dp_shard = 2}})
    for (const int stage : {0, 1, 2, 3}) {
      layout.zero = stage;
      CAPTURE(layout.dp_shard, stage);
      check_totals(model, {DType::kFp32, DType::kBf16}, layout, train(layout, overrides));
    }
}

TEST_CASE("zero: an offloaded optimizer changes no bit, and is counted on the host", "[train][ranks]") {
  for (const int stage : {0, 2}) {
    const Layout layout{.dp = 2, .zero = stage};
    const Outcome kept = train(layout, {"precision.compute=bf16"});
    const Outcome offloaded = train(layout, {"precision.compute=bf16", "memory.offload_optimizer=cpu"});
    CHECK(largest_difference(kept.tensors, offloaded.tensors, 1e-30) == 0);
    for (int rank = 0; rank < 2; ++rank)
      CHECK(memory_of(offloaded, rank) == with_offloaded_optimizer(memory_of(kept, rank)));
  }
}
