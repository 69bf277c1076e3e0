// Runs the optimizers and schedules for 20 updates and writes every number to files that oracle_test.py
// compares with PyTorch: DIRECTORY/<case>.<array>, raw little-endian fp64.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "llmtrain/job/lr_schedule.hpp"
#include "llmtrain/optim/grad_norm.hpp"
#include "llmtrain/optim/gradient_scale.hpp"
#include "llmtrain/optim/optimizer.hpp"

namespace {

using namespace llmtrain;

constexpr std::int64_t kUpdates = 20;
constexpr std::int64_t kMatrix = 48;  // elements of the slice that takes decay
constexpr std::int64_t kNorm = 7;     // and of the one that does not
constexpr double kMaxNorm = 5.0;      // about the middle of the norms below: some updates are clipped

class Dump {
 public:
  explicit Dump(std::string prefix) : prefix_(std::move(prefix)) {}

  void add(const std::string& array, const at::Tensor& values) {
    const at::Tensor wide = values.to(at::kDouble).contiguous();
    write(array, static_cast<const char*>(wide.const_data_ptr()), wide.nbytes());
  }
  void add(const std::string& array, double value) {
    write(array, reinterpret_cast<const char*>(&value), sizeof(value));
  }

 private:
  void write(const std::string& array, const char* data, std::size_t bytes) {
    std::ofstream(prefix_ + "." + array, std::ios::binary | std::ios::app)
        .write(data, static_cast<std::streamsize>(bytes));
  }
  std::string prefix_;
};

LrSchedule schedule(LrStyle style) {
  return {.style = style,
          .peak = 0.02,
          .warmup_steps = 5,
          .total_steps = kUpdates,
          .decay_steps = 6,
          .min_lr_ratio = 0.1};
}

struct Case {
  std::string name;
  OptimizerKind kind;
  double momentum;
  at::ScalarType weight;
};

void run(const std::string& directory, const Case& c) {
  Dump dump(directory + "/" + c.name);
  std::mt19937_64 generator(7);
  std::normal_distribution<double> normal;
  const at::ScalarType main = c.weight == at::kDouble ? at::kDouble : at::kFloat;
  const auto random = [&](std::int64_t n) {
    const at::Tensor values = at::empty({n}, at::kDouble);
    for (std::int64_t i = 0; i < n; ++i) values.mutable_data_ptr<double>()[i] = normal(generator);
    return values.to(main);
  };
  std::vector<OptimizerSlice> slices(2);
  for (std::size_t i = 0; i < 2; ++i) {
    OptimizerSlice& slice = slices[i];
    slice.name = i == 0 ? "matrix" : "norm";
    slice.decay = i == 0;
    slice.master = random(i == 0 ? kMatrix : kNorm);
    slice.weight = c.weight == main ? slice.master : slice.master.to(c.weight);
    slice.grad = random(slice.master.numel());
    dump.add(slice.name + ".start", slice.master);
  }
  OptimizerSpec spec;
  spec.name = c.kind;
  spec.momentum = c.momentum;
  spec.weight_decay = 0.3;
  const auto optimizer = make_optimizer(spec, slices);
  for (std::int64_t k = 1; k <= kUpdates; ++k) {
    const double size = std::exp(0.15 * static_cast<double>(k - kUpdates / 2));
    for (OptimizerSlice& slice : slices) {
      slice.grad.copy_(random(slice.grad.numel()).mul_(size));
      dump.add(slice.name + ".grad", slice.grad);
    }
    const double lr = lr_at(schedule(LrStyle::kCosine), k);
    const GradientScale scale =
        gradient_scale(sum_of_squares({slices[0].grad, slices[1].grad}), 1.0, kMaxNorm);
    optimizer->step(lr, scale.scale);
    dump.add("norm_before_clipping", scale.norm);
    for (std::size_t i = 0; i < 2; ++i) {
      dump.add(slices[i].name + ".master", slices[i].master);
      dump.add(slices[i].name + ".weight", slices[i].weight);
    }
  }
  for (const std::string& name : optimizer->state_names())
    for (std::size_t i = 0; i < 2; ++i) dump.add(slices[i].name + "." + name, optimizer->state(i, name));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string directory = argv[1];
  for (const auto& [suffix, type] :
       {std::pair{"fp32", at::kFloat}, {"fp64", at::kDouble}, {"bf16", at::kBFloat16}}) {
    run(directory, {std::string("adamw_") + suffix, OptimizerKind::kAdamW, 0, type});
    run(directory, {std::string("sgd_") + suffix, OptimizerKind::kSgd, 0, type});
    run(directory, {std::string("momentum_") + suffix, OptimizerKind::kSgd, 0.9, type});
  }
  for (const auto& [name, style] : {std::pair{"constant", LrStyle::kConstant},
                                    {"linear", LrStyle::kLinear},
                                    {"cosine", LrStyle::kCosine},
                                    {"wsd", LrStyle::kWsd},
                                    {"inverse_sqrt", LrStyle::kInverseSqrt}}) {
    Dump dump(directory + "/" + name);
    for (std::int64_t k = 1; k <= kUpdates; ++k) dump.add("lr", lr_at(schedule(style), k));
  }
  return 0;
}
