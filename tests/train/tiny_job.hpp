#pragma once

#include <string>

namespace llmtrain::test {

// A llama that is small enough to train in milliseconds, with odd sizes: 61 tokens, 2 kv heads.
inline const std::string kTinyJob = R"(
version: 1
run: {name: tiny, seed: 7, device: cpu}
model: {family: llama, vocab_size: 61, hidden_size: 32, num_layers: 2, num_heads: 4, num_kv_heads: 2, ffn_hidden_size: 48}
data: {seq_length: 16, train: [{path: synthetic}]}
batch: {micro_batch_size: 2, global_batch_size: 16}
precision: {compute: fp64}
optimizer: {name: adamw, lr: 3.0e-3}
lr_schedule: {style: cosine, warmup: 2 steps}
train: {duration: 10 steps, compute_threads: 1}
checkpoint: {keep_last: 0, save_initial: true}
monitoring: {peak_tflops: 0.1}
resilience: {collective_timeout_s: 30}
)";

inline std::string step_dir(const std::string& run_dir, int step) {
  std::string digits = std::to_string(step);
  return run_dir + "/checkpoints/step-" + std::string(8 - digits.size(), '0') + digits;
}

}  // namespace llmtrain::test
