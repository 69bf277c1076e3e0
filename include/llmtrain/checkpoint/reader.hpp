#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/core/filesystem.hpp"

// Reading a committed checkpoint: any box of any tensor, whatever layout wrote it.
//
// Every block of a file is checked against the manifest before a byte of it is handed out, so a load either
// gives what was saved or an error that names file and offset. Nothing is mapped; memory stays bounded by
// a few blocks per open file. `files` must outlive the reader. Not thread-safe: one reader per thread.
namespace llmtrain {

class CheckpointReader {
 public:
  // `directory` is a step directory. Reads and checks the manifest only.
  static Result<CheckpointReader> open(FileSystem& files, const std::string& directory);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const std::string& directory() const;
  const Manifest& manifest() const;
  const TrainState& state() const { return manifest().state; }
  const std::vector<TensorInfo>& tensors() const;  // ascending names
  const TensorInfo* find(std::string_view name) const;

  // Fills `out` with the elements of `box`, row-major, in the stored type. `dtype` is what the caller
  // expects; another stored type is an error, as is a box that does not lie in the tensor.
  Status read(std::string_view name, DType dtype, const Box& box, std::span<std::byte> out);
  // The whole tensor.
  Status read(std::string_view name, DType dtype, std::span<std::byte> out);
  // A file that is no shard (tokenizer.json), checked.
  Result<std::string> read_extra(std::string_view name, std::uint64_t max_bytes);

  // Strict load: an error that names every tensor that is extra, missing, or of another type or shape.
  Status expect(std::span<const TensorInfo> wanted) const;

 private:
  struct Impl;
  explicit CheckpointReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One line per difference between two lists of tensors, by name; empty when they are the same. A lenient
// load prints these lines and goes on.
std::vector<std::string> compare_tensors(std::span<const TensorInfo> found,
                                         std::span<const TensorInfo> wanted);

}  // namespace llmtrain
