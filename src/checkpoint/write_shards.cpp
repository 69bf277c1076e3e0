#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/checkpoint/safetensors.hpp"
#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/core/check.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "checksummed_file.hpp"

namespace llmtrain {
namespace {

// A name must survive JSON, a shell and the piece notation.
bool is_tensor_name(std::string_view name) {
  constexpr std::size_t kMaxName = 512;
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kMaxName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

void check_piece(const TensorPiece& piece) {
  LLMTRAIN_CHECK(is_tensor_name(piece.name), "tensor name \"{}\"", piece.name);
  LLMTRAIN_CHECK(is_inside(piece.box(), piece.global_shape),
                 "{}: offset {} extent {} in {}",
                 piece.name,
                 shape_text(piece.offset),
                 shape_text(piece.extent),
                 shape_text(piece.global_shape));
  const std::size_t bytes = static_cast<std::size_t>(volume(piece.extent)) * bytes_of(piece.dtype);
  LLMTRAIN_CHECK(piece.bytes.size() == bytes,
                 "{}: {} bytes for extent {} of {}",
                 piece.name,
                 piece.bytes.size(),
                 shape_text(piece.extent),
                 to_string(piece.dtype));
}

// Wide types first, so that every tensor is aligned to its type; then by name, so that equal state gives
// equal files.
std::vector<const TensorPiece*> in_file_order(const std::vector<TensorPiece>& pieces) {
  std::vector<const TensorPiece*> order;
  for (const TensorPiece& piece : pieces) {
    check_piece(piece);
    order.push_back(&piece);
  }
  std::sort(order.begin(), order.end(), [](const TensorPiece* a, const TensorPiece* b) {
    if (bytes_of(a->dtype) != bytes_of(b->dtype)) return bytes_of(a->dtype) > bytes_of(b->dtype);
    return a->name != b->name ? a->name < b->name : a->offset < b->offset;
  });
  return order;
}

Result<FileRecord> write_shard(FileSystem& files,
                               const std::string& directory,
                               const std::string& name,
                               const std::vector<TensorPiece>& pieces) {
  const std::vector<const TensorPiece*> order = in_file_order(pieces);
  std::vector<SafetensorsEntry> entries;
  for (const TensorPiece* piece : order)
    entries.push_back({piece_name(piece->name, piece->global_shape, piece->box()),
                       stored_type_of(piece->dtype),
                       piece->extent,
                       0,
                       0});
  // Loaders of the Hugging Face libraries look for this key.
  LLMTRAIN_ASSIGN(header, make_safetensors_header(entries, {{"format", "pt"}}));

  LLMTRAIN_ASSIGN(file, ChecksummedFile::create(files, directory, name));
  LLMTRAIN_TRY(file.append(std::as_bytes(std::span(header))));
  for (const TensorPiece* piece : order) LLMTRAIN_TRY(file.append(piece->bytes));
  LLMTRAIN_ASSIGN(record, file.finish());
  for (const TensorPiece* piece : order)
    record.pieces.push_back({piece->name, piece->dtype, piece->global_shape, piece->box()});
  return record;
}

std::uint64_t bytes_of(std::span<const ShardFile> shards) {
  std::uint64_t bytes = 0;
  for (const ShardFile& shard : shards)
    for (const TensorPiece& piece : shard.pieces) bytes += piece.bytes.size();
  return bytes;
}

}  // namespace

Result<std::vector<FileRecord>> write_shards(FileSystem& files,
                                             const SaveTarget& target,
                                             std::span<const ShardFile> shards,
                                             std::uint64_t bytes_of_all_ranks) {
  LLMTRAIN_TRY(make_directories(files, target.checkpoints_dir));
  LLMTRAIN_TRY(
      check_free_space(files, target.checkpoints_dir, std::max(bytes_of_all_ranks, bytes_of(shards))));
  const std::string directory =
      join_path(target.checkpoints_dir, temporary_directory_name(target.step, target.epoch));
  LLMTRAIN_TRY(files.make_directory(directory));

  std::vector<FileRecord> records;
  for (const ShardFile& shard : shards) {
    if (shard.pieces.empty()) continue;
    const std::string name = shard_file_name(shard.kind, target.rank, target.world_size);
    auto record = write_shard(files, directory, name, shard.pieces);
    if (!record) {
      // Best effort: what is left is no candidate for loading, and the next start removes it.
      (void)files.remove_file(join_path(directory, name));
      for (const FileRecord& done : records) (void)files.remove_file(join_path(directory, done.name));
      Error error = std::move(record).error();
      error.message = fmt::format(
          "cannot save step {} ({} bytes of this rank): {}", target.step, bytes_of(shards), error.message);
      return error;
    }
    records.push_back(std::move(record).value());
  }
  LLMTRAIN_TRY(files.sync_directory(directory));
  return records;
}

Status check_free_space(FileSystem& files, const std::string& directory, std::uint64_t bytes) {
  LLMTRAIN_ASSIGN(available, files.free_space(directory));
  if (available >= bytes) return ok_status();
  return Error{
      ErrorCode::kStorage,
      fmt::format(
          "no room for a checkpoint in {}: {} bytes are needed and {} are free", directory, bytes, available),
      "free space there, keep fewer checkpoints (checkpoint.keep_last), or move run.dir"};
}

std::vector<int> assign_writers(std::span<const std::int64_t> tensor_bytes, int num_writers) {
  LLMTRAIN_CHECK(num_writers > 0, "{} writers", num_writers);
  // Largest first to the writer with the least; ties go to the lower index, so all ranks agree.
  std::vector<std::size_t> order(tensor_bytes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return tensor_bytes[a] > tensor_bytes[b];
  });
  std::vector<std::int64_t> load(static_cast<std::size_t>(num_writers), 0);
  std::vector<int> writer(tensor_bytes.size(), 0);
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    writer[i] = static_cast<int>(least - load.begin());
    *least += tensor_bytes[i];
  }
  return writer;
}

}  // namespace llmtrain
