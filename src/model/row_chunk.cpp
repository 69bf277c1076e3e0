#include "row_chunk.hpp"

#include <algorithm>

#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/tensor.hpp"

namespace llmtrain {

std::vector<RowChunk> RowChunk::cut(std::int64_t rows, int parts, int chunks) {
  const std::int64_t part_rows = exact_div(rows, parts);
  const std::int64_t count = std::max<std::int64_t>(1, std::min<std::int64_t>(chunks, part_rows));
  std::vector<RowChunk> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = floor_div(i * part_rows, count);
    const std::int64_t end = floor_div((i + 1) * part_rows, count);
    result.push_back({first, end - first, part_rows, parts});
  }
  return result;
}

at::Tensor RowChunk::in_row(const at::Tensor& stacked) const {
  return stacked.narrow(0, first_ * parts_, count_ * parts_);
}

at::Tensor RowChunk::by_part(const at::Tensor& all) const {
  return all.view({parts_, part_rows_, all.size(1)}).narrow(1, first_, count_);  // [parts, count, w]
}

at::Tensor RowChunk::of(const at::Tensor& all) const {
  if (are_neighbours()) return in_row(all);
  return by_part(all).reshape({parts_ * count_, all.size(1)});
}

at::Tensor RowChunk::room_in(const at::Tensor& all) const {
  if (are_neighbours()) return in_row(all);
  return empty_host({parts_ * count_, all.size(1)}, dtype_of(all.scalar_type()));
}

void RowChunk::store(const at::Tensor& rows, at::Tensor& all) const {
  if (!are_neighbours()) by_part(all).copy_(rows.view({parts_, count_, rows.size(1)}));
}

}  // namespace llmtrain
