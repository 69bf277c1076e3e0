#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <ATen/Parallel.h>

#include "llmtrain/core/philox.hpp"
#include "llmtrain/model/transformer.hpp"
#include "llmtrain/tensor/memory_pool.hpp"

// Time and memory of one training step of llama-10m: forward, backward and an AdamW written plainly here
// (the trainer's own is measured by the trainer). Usage: step_bench fp32|bf16 [steps] [threads].
// Compare with bench/pytorch_step.py of the same arguments.
using namespace llmtrain;

namespace {

ModelSpec llama_10m() {
  ModelSpec m;
  m.vocab_size = 512;
  m.hidden_size = 384;
  m.num_layers = 6;
  m.num_heads = 6;
  m.num_kv_heads = 6;
  m.head_dim = 64;
  m.ffn_hidden_size = 1024;
  return m;
}

MicroBatch batch_of(std::int64_t batch, std::int64_t length, std::int64_t vocab) {
  MicroBatch result{.tokens = zeros_host({batch, length}, DType::kFp32).to(at::kLong),
                    .labels = at::Tensor()};
  result.labels = result.tokens.clone();
  for (std::int64_t i = 0; i < batch * length; ++i) {
    result.tokens.data_ptr<std::int64_t>()[i] = philox(1, static_cast<std::uint64_t>(i))[0] % vocab;
    result.labels.data_ptr<std::int64_t>()[i] = philox(1, static_cast<std::uint64_t>(i))[1] % vocab;
  }
  return result;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string type = argc > 1 ? argv[1] : "fp32";
  const int steps = argc > 2 ? std::atoi(argv[2]) : 12;
  at::set_num_threads(argc > 3 ? std::atoi(argv[3]) : 2);
  install_host_memory_counter();

  const ModelSpec model = llama_10m();
  FlatParameters params(parameter_table(model), type == "bf16" ? DType::kBf16 : DType::kFp32);
  params.initialize(1);
  Transformer transformer(model, params, {.max_positions = 256});
  const MicroBatch batch = batch_of(8, 256, model.vocab_size);

  std::vector<double> forward_ms;
  std::vector<double> backward_ms;
  double loss = 0.0;
  for (int step = 0; step < steps; ++step) {
    params.zero_grads();
    const auto start = std::chrono::steady_clock::now();
    loss = transformer.forward(batch, 1.0 / 2048).loss / 2048;
    forward_ms.push_back(milliseconds_since(start));
    const auto middle = std::chrono::steady_clock::now();
    transformer.backward();
    backward_ms.push_back(milliseconds_since(middle));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%s forward_ms=%.1f (min %.1f) backward_ms=%.1f (min %.1f) loss=%.6f peak_rss_mb=%.0f "
      "activations_peak_mb=%.0f\n",
      type.c_str(),
      median(forward_ms),
      *std::min_element(forward_ms.begin(), forward_ms.end()),
      median(backward_ms),
      *std::min_element(backward_ms.begin(), backward_ms.end()),
      loss,
      static_cast<double>(usage.ru_maxrss) / 1024.0,
      static_cast<double>(host_memory(MemoryPool::kActivations).peak_bytes) / (1 << 20));
  return 0;
}
