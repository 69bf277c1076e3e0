#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Boxes: the part of a global tensor that somebody holds, as offset and extent per dimension.
//
// Everything a checkpoint stores or reads is a box, so a file written on one mesh is read on any other by
// intersecting. A scalar is the box without dimensions; its volume is 1.
namespace llmtrain {

struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> extent;
  friend bool operator==(const Box&, const Box&) = default;
};

Box whole(const std::vector<std::int64_t>& shape);
std::int64_t volume(std::span<const std::int64_t> extent);
bool is_inside(const Box& box, const std::vector<std::int64_t>& shape);  // same rank, no negative part, fits

// The common part; absent when it is empty.
std::optional<Box> intersect(const Box& a, const Box& b);

// A run of elements that is contiguous both in `from` and in `to` (row-major), in elements from each start.
struct ContiguousRun {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};
// Calls `visit` for the runs of `common`, a box inside both, in row-major order, as few as possible. Stops
// and returns false when `visit` does.
bool for_each_run(const Box& common,
                  const Box& from,
                  const Box& to,
                  const std::function<bool(const ContiguousRun&)>& visit);

// The elements [begin, end) of the flattened tensor as boxes, in order: how a flat shard of an optimizer
// state becomes pieces that any layout can read.
std::vector<Box> boxes_of_flat_range(const std::vector<std::int64_t>& shape,
                                     std::int64_t begin,
                                     std::int64_t end);

// Cuts a tensor into boxes of at most `max_elements` that follow each other in row-major order.
void for_each_chunk(const std::vector<std::int64_t>& shape,
                    std::int64_t max_elements,
                    const std::function<bool(const Box&)>& visit);

// Whether the boxes cover `shape` exactly: no hole, no overlap, nothing outside.
bool tiles(const std::vector<std::int64_t>& shape, std::vector<Box> boxes);

// How a file calls a piece: the tensor's own name when it is whole, else "name[0:512,64:128]".
std::string piece_name(std::string_view name, const std::vector<std::int64_t>& shape, const Box& box);

// "[4096, 1024]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace llmtrain
