#pragma once

#include <vector>

#include "llmtrain/tensor/tensor.hpp"

// Keys and values of the tokens already seen, per block, for incremental generation.
//
// All sequences of the batch have the same length. Keys are stored after rotation.
namespace llmtrain {

class KvCache {
 public:
  struct Layer {
    at::Tensor keys;    // [b, kv heads, capacity, d]
    at::Tensor values;  // [b, kv heads, capacity, d]
  };

  KvCache(std::vector<Layer> layers, std::int64_t capacity)
      : layers_(std::move(layers)), capacity_(capacity) {}

  Layer& layer(int index) { return layers_.at(static_cast<std::size_t>(index)); }
  int num_layers() const { return static_cast<int>(layers_.size()); }
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  void advance(std::int64_t tokens) { length_ += tokens; }
  // Forgets all tokens, or those from `length` on.
  void truncate(std::int64_t length = 0) { length_ = length; }

 private:
  std::vector<Layer> layers_;
  std::int64_t capacity_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace llmtrain
