#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

// The rows of a micro-batch cut into chunks, so that one is sent while the next is computed.
//
// The rows stand in equal parts, one for each rank that keeps some of them. A chunk holds the same rows of
// every part, in rank order: gathering it, or scattering its sum, is one collective, and what a rank keeps of
// it are neighbours. It knows no ranks and sends nothing.
namespace llmtrain {

class RowChunk {
 public:
  // At most `chunks`, each with rows, which no two share. `rows` is a multiple of `parts`.
  static std::vector<RowChunk> cut(std::int64_t rows, int parts, int chunks);

  // Of each part.
  std::int64_t first() const { return first_; }
  std::int64_t count() const { return count_; }

  // Where chunks stand one behind the other [rows, w]: this one [parts x count, w].
  at::Tensor in_row(const at::Tensor& stacked) const;
  // Its rows of all rows [rows, w], as [parts x count, w]; a view where they are neighbours.
  at::Tensor of(const at::Tensor& all) const;
  // Room for its rows, which store() puts where they belong; the place itself where they are neighbours.
  at::Tensor room_in(const at::Tensor& all) const;
  void store(const at::Tensor& rows, at::Tensor& all) const;

 private:
  RowChunk(std::int64_t first, std::int64_t count, std::int64_t part_rows, int parts)
      : first_(first), count_(count), part_rows_(part_rows), parts_(parts) {}

  bool are_neighbours() const { return parts_ == 1 || count_ == part_rows_; }
  at::Tensor by_part(const at::Tensor& all) const;

  std::int64_t first_;
  std::int64_t count_;
  std::int64_t part_rows_;
  int parts_;
};

}  // namespace llmtrain
