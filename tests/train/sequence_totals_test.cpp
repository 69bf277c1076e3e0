// What ranks that share sequences say that they sent, against closed forms: a run whose sequences are only
// pretended to be cut is found out.
#include "llmtrain/sizing/sequence_traffic.hpp"
#include "llmtrain/sizing/tensor_traffic.hpp"
#include "llmtrain/spec/enum_names.hpp"

#include "tests/train/totals.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

SequenceMethod method_of(const std::string& word) {
  for (const SequenceMethod method :
       {SequenceMethod::kRing, SequenceMethod::kUlysses, SequenceMethod::kAllGather})
    if (name_of(method) == word) return method;
  throw std::runtime_error("no method " + word);
}

void check_totals(const ModelSpec& model,
                  DType compute,
                  const Layout& layout,
                  const Outcome& outcome,
                  std::int64_t recomputed = 0) {
  const auto table = parameter_table(model);
  const std::int64_t passes = kSteps * layout.accumulation;
  const std::int64_t tokens = kTokensPerStep / (layout.dp * layout.accumulation * layout.sp);
  const SequencePass pass{.method = method_of(layout.method),
                          .compute = compute,
                          .sp = layout.sp,
                          .tp = layout.tp,
                          .tokens = tokens,
                          .recomputed = recomputed};
  const SequenceTraffic sequence = training_traffic(model, pass);
  const TensorPass tensor_pass{.compute = compute, .tp = layout.tp, .tokens = tokens, .chunk_tokens = tokens};
  const Traffic crossings = training_traffic(model, tensor_pass).all_reduce;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    CAPTURE(rank);
    const TensorPlace place{.rank = rank % layout.tp, .size = layout.tp};
    CHECK(memory_of(outcome, rank) == static_memory(table, compute, OptimizerSpec{}, place));
    CHECK(total_of(outcome, rank, "sp", "send_recv") == times(passes, sequence.send_recv));
    CHECK(total_of(outcome, rank, "sp", "all_gather") == times(passes, sequence.all_gather));
    CHECK(total_of(outcome, rank, "sp", "reduce_scatter") == times(passes, sequence.reduce_scatter));
    CHECK(total_of(outcome, rank, "sp", "all_to_all") == times(passes, sequence.all_to_all));
    // Gradients are summed over dp x sp, once a step.
    const Traffic gradients =
        times(kSteps, gradient_traffic(table, compute, layout.dp * layout.sp, 0, 0, place));
    CHECK(total_of(outcome, rank, layout.dp > 1 ? "dp_sp" : "sp", "all_reduce") == gradients);
    if (layout.tp > 1)
      CHECK(total_of(outcome, rank, "tp", "all_reduce") ==
            sum(times(passes, crossings), times(kSteps, replica_traffic(table, compute, layout.tp).group)));
  }
}

}  // namespace

TEST_CASE("sequence parallel: bytes sent are the closed forms", "[train][ranks]") {
  const std::vector<std::string> fp32 = {"precision.compute=fp32"};
  const std::vector<std::string> bf16 = {"precision.compute=bf16", "model={family: qwen3, head_dim: 16}"};
  for (const auto& overrides : {fp32, bf16}) {
    const ModelSpec model = resolved_model(overrides);
    const DType compute = overrides[0].ends_with("bf16") ? DType::kBf16 : DType::kFp32;
    for (const Layout& layout : {Layout{.dp = 2, .accumulation = 2, .sp = 2},
                                 Layout{.accumulation = 2, .tp = 2, .sp = 2},
                                 Layout{.accumulation = 4, .sp = 4},
                                 Layout{.accumulation = 4, .sp = 4, .method = "allgather"},
                                 Layout{.accumulation = 2, .tp = 2, .sp = 2, .method = "allgather"},
                                 Layout{.accumulation = 4, .sp = 4, .method = "ulysses"},
                                 Layout{.accumulation = 2, .tp = 2, .sp = 2, .method = "ulysses"}}) {
      CAPTURE(overrides, layout.dp, layout.tp, layout.sp, layout.method);
      check_totals(model, compute, layout, train(layout, overrides));
    }
  }
}

TEST_CASE("sequence parallel: attention that is computed again is sent again", "[train][ranks]") {
  for (const char* mode : {"memory.recompute=selective", "memory.recompute=full"}) {
    const std::vector<std::string> overrides = {"precision.compute=fp32", mode};
    const ModelSpec model = resolved_model(overrides);
    for (const char* method : {"ring", "allgather", "ulysses"}) {
      const Layout layout{.accumulation = 2, .sp = 2, .method = method};
      CAPTURE(mode, method);
      check_totals(model, DType::kFp32, layout, train(layout, overrides), model.num_layers);
    }
  }
}
