#pragma once

#include <ATen/Parallel.h>

#include "llmtrain/core/philox.hpp"
#include "llmtrain/model/transformer.hpp"
#include "llmtrain/placement/init.hpp"

// A model with storage, random weights in every parameter (norms and biases too) and random batches.
namespace llmtrain::test {

inline MicroBatch random_batch(std::int64_t batch,
                               std::int64_t length,
                               std::int64_t vocab,
                               std::uint64_t seed = 7) {
  MicroBatch result{.tokens = at::Tensor(), .labels = at::Tensor()};
  result.tokens = zeros_host({batch, length}, DType::kFp64).to(at::kLong);
  result.labels = result.tokens.clone();
  auto* tokens = result.tokens.data_ptr<std::int64_t>();
  auto* labels = result.labels.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < batch * length; ++i) {
    const auto words = philox(seed, static_cast<std::uint64_t>(i));
    tokens[i] = words[0] % vocab;
    labels[i] = words[1] % 5 == 0 ? kIgnoredLabel : static_cast<std::int64_t>(words[2] % vocab);
  }
  return result;
}

// initialize() leaves norms at one and biases at zero, where mistakes in their gradients can hide.
inline void randomise(FlatParameters& params, std::uint64_t seed = 5) {
  params.initialize(seed);
  for (int i = 0; i < params.num_segments(); ++i) {
    for (const ParamSlice& slice : params.segment(i).slices) {
      if (slice.spec->init == InitRule::kNormal) continue;
      const std::uint64_t key = init_key(seed, slice.spec->name);
      at::Tensor values = slice.master.to(at::kDouble);
      for (std::int64_t j = 0; j < values.numel(); ++j)
        values.data_ptr<double>()[j] +=
            0.1 * normal_quantile(philox(key, static_cast<std::uint64_t>(slice.shard.global_index(j)))[0]);
      at::Tensor master = slice.master;
      master.copy_(values);
    }
  }
  params.publish_all();
}

struct TestModel {
  TestModel(const ModelSpec& spec,
            DType compute,
            std::int64_t loss_chunk_tokens = 0,
            const MemorySpec& memory = {})
      : params(parameter_table(spec), compute),
        transformer(
            spec, params, {.max_positions = 16, .loss_chunk_tokens = loss_chunk_tokens, .memory = memory}) {
    at::set_num_threads(1);  // tests share their machine; two threads that wait for each other do not
    randomise(params);
  }

  FlatParameters params;
  Transformer transformer;
};

}  // namespace llmtrain::test
