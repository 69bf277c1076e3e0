#include "llmtrain/checkpoint/box.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

Box whole(const std::vector<std::int64_t>& shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), shape};
}

std::int64_t volume(std::span<const std::int64_t> extent) {
  std::int64_t product = 1;
  for (const std::int64_t n : extent) product *= n;
  return product;
}

bool is_inside(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.offset.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    if (box.offset[dim] < 0 || box.extent[dim] < 0 || box.extent[dim] > shape[dim]) return false;
    if (box.offset[dim] > shape[dim] - box.extent[dim]) return false;
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  LLMTRAIN_CHECK(
      a.extent.size() == b.extent.size(), "{} and {} dimensions", a.extent.size(), b.extent.size());
  Box common = a;
  for (std::size_t dim = 0; dim < a.extent.size(); ++dim) {
    const std::int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const std::int64_t end = std::min(a.offset[dim] + a.extent[dim], b.offset[dim] + b.extent[dim]);
    if (begin >= end) return std::nullopt;
    common.offset[dim] = begin;
    common.extent[dim] = end - begin;
  }
  return common;
}

bool for_each_run(const Box& common,
                  const Box& from,
                  const Box& to,
                  const std::function<bool(const ContiguousRun&)>& visit) {
  const std::size_t rank = common.extent.size();
  // Dimensions from `inner` on are whole in both boxes, so one run spans them all and the one before them.
  std::size_t inner = rank;
  while (inner > 0 && common.extent[inner - 1] == from.extent[inner - 1] &&
         common.extent[inner - 1] == to.extent[inner - 1])
    --inner;
  const std::size_t num_outer = inner == 0 ? 0 : inner - 1;
  const std::int64_t count = volume(std::span(common.extent).subspan(num_outer));
  if (volume(common.extent) == 0) return true;

  const auto position = [&](const Box& box, const std::vector<std::int64_t>& index) {
    std::int64_t at = 0;
    for (std::size_t dim = 0; dim < rank; ++dim)
      at = at * box.extent[dim] + (common.offset[dim] - box.offset[dim]) + (dim < num_outer ? index[dim] : 0);
    return at;
  };
  std::vector<std::int64_t> index(num_outer, 0);
  while (true) {
    if (!visit({position(from, index), position(to, index), count})) return false;
    std::size_t dim = num_outer;
    while (dim > 0 && ++index[dim - 1] == common.extent[dim - 1]) index[--dim] = 0;
    if (dim == 0) return true;
  }
}

namespace {

// Appends the boxes of [begin, end) inside the sub-tensor whose leading `dim` indices are `prefix`.
void append_flat_range(const std::vector<std::int64_t>& shape,
                       std::vector<std::int64_t>& prefix,
                       std::int64_t begin,
                       std::int64_t end,
                       std::vector<Box>& boxes) {
  if (begin >= end) return;
  const std::size_t dim = prefix.size();
  const auto add = [&](std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    Box box = whole(shape);
    for (std::size_t d = 0; d < dim; ++d) box.offset[d] = prefix[d], box.extent[d] = 1;
    if (dim < shape.size()) box.offset[dim] = first, box.extent[dim] = count;
    boxes.push_back(std::move(box));
  };
  if (dim == shape.size()) return add(0, 1);
  const std::int64_t row = volume(std::span(shape).subspan(dim + 1));
  const auto part_of_row = [&](std::int64_t index, std::int64_t first, std::int64_t last) {
    prefix.push_back(index);
    append_flat_range(shape, prefix, first, last, boxes);
    prefix.pop_back();
  };
  const std::int64_t head = begin % row;
  if (head != 0) {
    const std::int64_t index = begin / row;
    part_of_row(index, head, std::min(row, end - index * row));
    begin = (index + 1) * row;
    if (begin >= end) return;
  }
  const std::int64_t full = end / row;
  add(begin / row, full - begin / row);
  part_of_row(full, 0, end - full * row);
}

}  // namespace

std::vector<Box> boxes_of_flat_range(const std::vector<std::int64_t>& shape,
                                     std::int64_t begin,
                                     std::int64_t end) {
  LLMTRAIN_CHECK(begin >= 0 && end <= volume(shape), "[{}, {}) of {} elements", begin, end, volume(shape));
  std::vector<Box> boxes;
  std::vector<std::int64_t> prefix;
  append_flat_range(shape, prefix, begin, end, boxes);
  return boxes;
}

void for_each_chunk(const std::vector<std::int64_t>& shape,
                    std::int64_t max_elements,
                    const std::function<bool(const Box&)>& visit) {
  const std::int64_t total = volume(shape);
  for (std::int64_t begin = 0; begin < total; begin += max_elements)
    for (const Box& box : boxes_of_flat_range(shape, begin, std::min(total, begin + max_elements)))
      if (!visit(box)) return;
}

bool tiles(const std::vector<std::int64_t>& shape, std::vector<Box> boxes) {
  std::int64_t covered = 0;
  for (const Box& box : boxes) {
    if (!is_inside(box, shape)) return false;
    covered += volume(box.extent);
  }
  if (covered != volume(shape)) return false;
  std::erase_if(boxes, [](const Box& box) { return volume(box.extent) == 0; });
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t k = i + 1; k < boxes.size(); ++k) {
      // Sorted by first offset: once a box starts behind this one, all later ones do.
      if (!shape.empty() && boxes[k].offset[0] >= boxes[i].offset[0] + boxes[i].extent[0]) break;
      if (intersect(boxes[i], boxes[k])) return false;
    }
  return true;
}

std::string piece_name(std::string_view name, const std::vector<std::int64_t>& shape, const Box& box) {
  if (box == whole(shape)) return std::string(name);
  std::string slices;
  for (std::size_t dim = 0; dim < shape.size(); ++dim)
    slices += fmt::format("{}{}:{}", dim == 0 ? "" : ",", box.offset[dim], box.offset[dim] + box.extent[dim]);
  return fmt::format("{}[{}]", name, slices);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace llmtrain
