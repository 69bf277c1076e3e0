#include "llmtrain/parallel/flat_parameters.hpp"

#include "llmtrain/core/check.hpp"
#include "llmtrain/placement/init.hpp"

#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

bool aligned(const at::Tensor& tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64 == 0;
}

}  // namespace

TEST_CASE("flat parameters: every view is 64-byte aligned and lies at one offset in all buffers",
          "[parallel]") {
  for (const DType compute : {DType::kBf16, DType::kFp32, DType::kFp64}) {
    const FlatParameters params(parameter_table(tiny_gpt2()), compute);
    CHECK(params.num_segments() == 4);
    for (int i = 0; i < params.num_segments(); ++i) {
      const SegmentParameters& segment = params.segment(i);
      for (const ParamSlice& slice : segment.slices) {
        INFO(slice.spec->name);
        CHECK(aligned(slice.weight));
        CHECK(aligned(slice.master));
        CHECK(aligned(slice.grad));
        CHECK(slice.weight.storage_offset() == slice.offset);
        CHECK(slice.grad.storage_offset() == slice.offset);
        CHECK(slice.weight.numel() == slice.spec->numel());
        CHECK(slice.weight.scalar_type() == scalar_type(compute));
        CHECK(slice.grad.scalar_type() == scalar_type(accumulation_type(compute)));
      }
      CHECK(segment.weights.is_same(segment.masters) == (compute != DType::kBf16));
    }
  }
}

TEST_CASE("flat parameters: initialize gives each parameter its own values and leaves gaps zero",
          "[parallel]") {
  FlatParameters params(parameter_table(tiny_gpt2()), DType::kFp32);
  params.initialize(42);
  for (int i = 0; i < params.num_segments(); ++i) {
    const SegmentParameters& segment = params.segment(i);
    double inside = 0;
    for (const ParamSlice& slice : segment.slices) {
      std::vector<float> expected(static_cast<std::size_t>(slice.spec->numel()));
      init_values(*slice.spec, 42, 0, expected);
      CHECK(std::equal(expected.begin(), expected.end(), slice.master.data_ptr<float>()));
      inside += slice.weight.to(at::kDouble).square().sum().item<double>();
    }
    CHECK(segment.weights.to(at::kDouble).square().sum().item<double>() == Approx(inside).epsilon(1e-12));
  }
}

TEST_CASE("flat parameters: bf16 weights are the rounded masters", "[parallel]") {
  FlatParameters params(parameter_table(tiny_llama()), DType::kBf16);
  params.initialize(1);
  const ParamSlice& slice = params.slice("model.layers.0.mlp.up_proj.weight");
  CHECK(slice.weight.equal(slice.master.to(at::kBFloat16)));
  at::Tensor master = slice.master;
  master.fill_(0.25);
  CHECK_FALSE(slice.weight.equal(slice.master.to(at::kBFloat16)));
  params.publish(1);
  CHECK(slice.weight.equal(slice.master.to(at::kBFloat16)));
}

TEST_CASE("flat parameters: query, key and value are one matrix", "[parallel]") {
  const FlatParameters params(parameter_table(tiny_mistral()), DType::kFp32);
  const std::string prefix = "model.layers.1.self_attn.";
  const WeightView fused =
      params.fused_view({prefix + "q_proj.weight", prefix + "k_proj.weight", prefix + "v_proj.weight"});
  REQUIRE(fused.defined());
  CHECK(fused.weight.sizes().vec() == std::vector<std::int64_t>{32 + 16 + 16, 16});
  const WeightView key = params.view(prefix + "k_proj.weight");
  CHECK(fused.weight.narrow(0, 32, 16).data_ptr() == key.weight.data_ptr());
  CHECK(fused.grad.narrow(0, 32, 16).data_ptr() == key.grad.data_ptr());
}

TEST_CASE("flat parameters: no fused view over padding, unknown names or other widths", "[parallel]") {
  const FlatParameters params(parameter_table(tiny_gpt2()), DType::kFp32);
  const std::string prefix = "model.layers.0.self_attn.";
  // Biases of 16 elements are padded to 32.
  CHECK_FALSE(params.fused_view({prefix + "q_proj.bias", prefix + "k_proj.bias"}).defined());
  CHECK_FALSE(params.fused_view({prefix + "q_proj.weight", prefix + "absent.weight"}).defined());
  CHECK_FALSE(params.fused_view({prefix + "q_proj.weight", prefix + "v_proj.weight"}).defined());
  CHECK_FALSE(params.fused_view({"model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"})
                  .defined());
  CHECK_FALSE(params.view("absent").defined());
  CHECK_THROWS_AS(params.slice("absent"), CheckFailure);
}

TEST_CASE("flat parameters: a tied head is the embedding", "[parallel]") {
  const FlatParameters params(parameter_table(tiny_qwen2()), DType::kFp32);
  CHECK(params.view("lm_head.weight").weight.data_ptr() ==
        params.view("model.embed_tokens.weight").weight.data_ptr());
  CHECK(params.segment(3).slices.size() == 1);
  std::int64_t held = 0;
  for (int i = 0; i < params.num_segments(); ++i)
    for (const ParamSlice& slice : params.segment(i).slices) held += slice.spec->numel();
  CHECK(held == parameter_count(params.table()));
}

TEST_CASE("flat parameters: zero_grad clears one segment", "[parallel]") {
  FlatParameters params(parameter_table(tiny_llama()), DType::kFp32);
  for (int i = 0; i < params.num_segments(); ++i) {
    at::Tensor grads = params.segment(i).grads;
    grads.fill_(1.0);
  }
  params.zero_grad(1);
  CHECK(params.segment(1).grads.abs().max().item<float>() == 0.0f);
  CHECK(params.segment(2).grads.abs().min().item<float>() == 1.0f);
  CHECK_THROWS_AS(params.zero_grad(4), CheckFailure);
}

TEST_CASE("flat parameters: a table that repeats a name, runs backwards or ties to nothing is refused",
          "[parallel]") {
  auto table = parameter_table(tiny_llama());
  auto twice = table;
  twice.push_back(twice.back());
  CHECK_THROWS_AS(FlatParameters(twice, DType::kFp32), CheckFailure);
  auto backwards = table;
  std::swap(backwards.front(), backwards.back());
  CHECK_THROWS_AS(FlatParameters(backwards, DType::kFp32), CheckFailure);
  auto dangling = table;
  dangling.back().tied_with = "absent";
  CHECK_THROWS_AS(FlatParameters(dangling, DType::kFp32), CheckFailure);
}
