#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/model/model_fixture.hpp"

// What a model computes, as plain numbers by name, so that a rank's share can be compared with one rank
// alone.
namespace llmtrain::test {

// Two micro-batches are trained on, so that sums over micro-batches are part of it.
struct Batches {
  MicroBatch first;
  MicroBatch second;
  MicroBatch evaluated;
};

inline Batches random_batches(std::int64_t vocab, std::int64_t length = 12, std::int64_t evaluated = 8) {
  return {.first = random_batch(2, length, vocab, 7),
          .second = random_batch(2, length, vocab, 8),
          .evaluated = random_batch(1, evaluated, vocab, 9)};
}

struct Numbers {
  double loss = 0;
  double evaluated = 0;
  std::int64_t tokens = 0;
  std::map<std::string, std::vector<double>> grads;
};

inline std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

inline std::map<std::string, std::vector<double>> gradients_of(const FlatParameters& params) {
  std::map<std::string, std::vector<double>> grads;
  for (int s = 0; s < params.num_segments(); ++s)
    for (const ParamSlice& slice : params.segment(s).slices) grads[slice.spec->name] = to_doubles(slice.grad);
  return grads;
}

// `in_halves`: weight gradients come after all input gradients of a micro-batch.
inline Numbers compute(const FlatParameters& params,
                       Transformer& model,
                       const Batches& batches,
                       bool in_halves = false) {
  Numbers numbers;
  ModelChunk& chunk = model.chunk();
  for (const int m : {0, 1}) {
    const LossSums sums = chunk.forward(m, m == 0 ? batches.first : batches.second, {}, 0.25).loss;
    if (in_halves) {
      chunk.input_gradient(m, {});
      chunk.weight_gradient(m, {});
    } else {
      chunk.backward(m, {}, {});
    }
    numbers.loss += sums.loss;
    numbers.tokens += sums.tokens;
  }
  numbers.evaluated = model.evaluate(batches.evaluated).loss;
  numbers.grads = gradients_of(params);
  return numbers;
}

// How far a rank's numbers are from those of one rank alone; elements where it holds the shard.
inline double difference(const Numbers& reference, const Numbers& own, const FlatParameters& params) {
  double largest = 0;
  for (const auto& [name, grad] : reference.grads)
    for (const double value : grad) largest = std::max(largest, std::abs(value));
  double worst = std::max(std::abs(own.loss - reference.loss) / reference.loss,
                          std::abs(own.evaluated - reference.evaluated) / reference.evaluated);
  for (int s = 0; s < params.num_segments(); ++s)
    for (const ParamSlice& slice : params.segment(s).slices) {
      const std::vector<double>& whole = reference.grads.at(slice.spec->name);
      const std::vector<double>& part = own.grads.at(slice.spec->name);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto index = static_cast<std::size_t>(slice.shard.global_index(static_cast<std::int64_t>(i)));
        worst = std::max(worst, std::abs(part[i] - whole[index]) / largest);
      }
    }
  return worst;
}

}  // namespace llmtrain::test
