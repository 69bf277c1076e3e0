#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/box.hpp"
#include "llmtrain/core/dtype.hpp"

// A tensor as a checkpoint knows it, and a piece of one to be written: names, numbers and borrowed bytes.
//
// Tensors are global, unpadded and row-major. Which rank, buffer or shard held them is not recorded.
namespace llmtrain {

struct TensorInfo {
  std::string name;  // "model.norm.weight", "exp_avg.model.norm.weight"
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;  // global
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct TensorPiece {
  std::string name;
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> global_shape;
  std::vector<std::int64_t> offset;  // one per dimension
  std::vector<std::int64_t> extent;
  std::span<const std::byte> bytes;  // row-major elements of the box; must live until the write returns

  Box box() const { return {offset, extent}; }
};

// The piece that is the whole tensor.
inline TensorPiece whole_tensor(TensorInfo info, std::span<const std::byte> bytes) {
  Box box = whole(info.shape);
  return {std::move(info.name),
          info.dtype,
          std::move(info.shape),
          std::move(box.offset),
          std::move(box.extent),
          bytes};
}

// Tensor names of the optimizer's state are these prefixes and the parameter's name.
inline constexpr char kMasterPrefix[] = "master.";
inline constexpr char kFirstMomentPrefix[] = "exp_avg.";
inline constexpr char kSecondMomentPrefix[] = "exp_avg_sq.";
inline constexpr char kMomentumPrefix[] = "momentum.";

}  // namespace llmtrain
