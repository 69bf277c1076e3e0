#include <cmath>

#include "llmtrain/tensor/tensor.hpp"

#include "tests/model/model_fixture.hpp"
#include "tests/model/tiny_models.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

double loss_at(
    TestModel& model, const MicroBatch& batch, const ParamSlice& slice, std::int64_t index, double step) {
  double* const value = slice.master.data_ptr<double>() + index;
  const double before = *value;
  *value = before + step;
  const double loss = model.transformer.evaluate(batch).loss;
  *value = before;
  return loss;
}

}  // namespace

TEST_CASE("model: every gradient equals finite differences in fp64, for each family", "[model]") {
  for (const auto& [name, spec] : tiny_models()) {
    INFO("model " << name);
    TestModel model(spec, DType::kFp64, 3);
    const MicroBatch batch = random_batch(2, 7, spec.vocab_size);
    const double seed = 0.5;
    const LossSums sums = model.transformer.forward(batch, seed);
    CHECK(sums.loss == Approx(model.transformer.evaluate(batch).loss).epsilon(1e-13));
    model.transformer.backward();
    for (int segment = 0; segment < model.params.num_segments(); ++segment) {
      for (const ParamSlice& slice : model.params.segment(segment).slices) {
        INFO("parameter " << slice.spec->name);
        const double largest = slice.grad.abs().max().item<double>();
        CHECK(largest > 0.0);
        const std::int64_t stride = std::max<std::int64_t>(1, slice.spec->numel() / 4);
        for (std::int64_t i = 0; i < slice.spec->numel(); i += stride) {
          const double h = 1e-5;
          const double expected =
              seed * (loss_at(model, batch, slice, i, h) - loss_at(model, batch, slice, i, -h)) / (2 * h);
          CHECK(std::abs(slice.grad.data_ptr<double>()[i] - expected) < 1e-8 + 1e-6 * largest);
        }
      }
    }
  }
}
