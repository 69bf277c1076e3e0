#include "llmtrain/checkpoint/reader.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "llmtrain/checkpoint/safetensors.hpp"
#include "llmtrain/core/check.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "shard_reader.hpp"
#include "verified_file.hpp"

namespace llmtrain {
namespace {

constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{1} << 30;

}  // namespace

struct CheckpointReader::Impl {
  struct Piece {
    std::size_t file = 0;  // index into manifest.files
    const PieceRecord* record = nullptr;
  };

  FileSystem& files;
  std::string directory;
  Manifest manifest;
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::vector<Piece>, std::less<>> pieces;  // by tensor
  std::map<std::size_t, ShardReader> shards;                      // opened so far, by file

  Result<ShardReader*> shard(std::size_t file);
  Status read_piece(const Piece& piece, const Box& box, std::size_t element_bytes, std::span<std::byte> out);
};

CheckpointReader::CheckpointReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

Result<CheckpointReader> CheckpointReader::open(FileSystem& files, const std::string& directory) {
  const std::string path = join_path(directory, kManifestName);
  LLMTRAIN_ASSIGN(text, read_file(files, path, kMaxManifestBytes));
  LLMTRAIN_ASSIGN(manifest, decode_manifest(text, path));
  LLMTRAIN_ASSIGN(tensors, manifest.tensors());
  auto impl =
      std::unique_ptr<Impl>(new Impl{files, directory, std::move(manifest), std::move(tensors), {}, {}});
  for (std::size_t file = 0; file < impl->manifest.files.size(); ++file)
    for (const PieceRecord& record : impl->manifest.files[file].pieces)
      impl->pieces[record.name].push_back({file, &record});
  return CheckpointReader(std::move(impl));
}

const std::string& CheckpointReader::directory() const {
  return impl_->directory;
}
const Manifest& CheckpointReader::manifest() const {
  return impl_->manifest;
}
const std::vector<TensorInfo>& CheckpointReader::tensors() const {
  return impl_->tensors;
}

const TensorInfo* CheckpointReader::find(std::string_view name) const {
  const auto& tensors = impl_->tensors;
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name, [](const TensorInfo& info, std::string_view wanted) {
        return info.name < wanted;
      });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

Status CheckpointReader::read(std::string_view name, DType dtype, const Box& box, std::span<std::byte> out) {
  const TensorInfo* info = find(name);
  if (!info)
    return Error{ErrorCode::kNotFound, fmt::format("{} holds no tensor \"{}\"", directory(), name), ""};
  if (info->dtype != dtype)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: tensor \"{}\" is {}; {} is needed",
                             directory(),
                             name,
                             to_string(info->dtype),
                             to_string(dtype)),
                 ""};
  if (!is_inside(box, info->shape))
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: tensor \"{}\" has shape {}; offset {} and extent {} are asked for",
                             directory(),
                             name,
                             shape_text(info->shape),
                             shape_text(box.offset),
                             shape_text(box.extent)),
                 ""};
  LLMTRAIN_CHECK(out.size() == static_cast<std::size_t>(volume(box.extent)) * bytes_of(dtype),
                 "{}: {} bytes for extent {}",
                 name,
                 out.size(),
                 shape_text(box.extent));
  for (const Impl::Piece& piece : impl_->pieces.find(name)->second)
    LLMTRAIN_TRY(impl_->read_piece(piece, box, bytes_of(dtype), out));
  return ok_status();
}

Status CheckpointReader::read(std::string_view name, DType dtype, std::span<std::byte> out) {
  const TensorInfo* info = find(name);
  return read(name, dtype, info ? whole(info->shape) : Box{}, out);
}

Result<std::string> CheckpointReader::read_extra(std::string_view name, std::uint64_t max_bytes) {
  for (const FileRecord& record : manifest().files) {
    if (record.name != name) continue;
    if (record.bytes > max_bytes)
      return Error{ErrorCode::kCorrupt,
                   fmt::format("{} has {} bytes; at most {} are allowed",
                               join_path(directory(), name),
                               record.bytes,
                               max_bytes),
                   ""};
    LLMTRAIN_ASSIGN(file, VerifiedFile::open(impl_->files, directory(), record));
    std::string contents(record.bytes, '\0');
    LLMTRAIN_TRY(file.read(0, std::as_writable_bytes(std::span(contents))));
    return contents;
  }
  return Error{ErrorCode::kNotFound, fmt::format("{} holds no file {}", directory(), name), ""};
}

Status CheckpointReader::expect(std::span<const TensorInfo> wanted) const {
  const std::vector<std::string> mismatches = compare_tensors(tensors(), wanted);
  if (mismatches.empty()) return ok_status();
  constexpr std::size_t kMaxLines = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(mismatches.size(), kMaxLines); ++i) text += "\n  " + mismatches[i];
  if (mismatches.size() > kMaxLines) text += fmt::format("\n  and {} more", mismatches.size() - kMaxLines);
  return Error{ErrorCode::kCorrupt,
               fmt::format("{} does not fit this model:{}", directory(), text),
               "resume with the model, precision and optimizer that saved it"};
}

Result<ShardReader*> CheckpointReader::Impl::shard(std::size_t file) {
  auto at = shards.find(file);
  if (at == shards.end()) {
    LLMTRAIN_ASSIGN(opened, ShardReader::open(files, directory, manifest.files[file]));
    at = shards.emplace(file, std::move(opened)).first;
  }
  return &at->second;
}

Status CheckpointReader::Impl::read_piece(const Piece& piece,
                                          const Box& box,
                                          std::size_t element_bytes,
                                          std::span<std::byte> out) {
  const auto common = intersect(piece.record->box, box);
  if (!common) return ok_status();
  LLMTRAIN_ASSIGN(source, shard(piece.file));
  Status status = ok_status();
  for_each_run(*common, piece.record->box, box, [&](const ContiguousRun& run) {
    const auto bytes = [&](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * element_bytes;
    };
    status = source->read(*piece.record, bytes(run.from), out.subspan(bytes(run.to), bytes(run.count)));
    return status.ok();
  });
  return status;
}

std::vector<std::string> compare_tensors(std::span<const TensorInfo> found,
                                         std::span<const TensorInfo> wanted) {
  std::map<std::string_view, std::pair<const TensorInfo*, const TensorInfo*>> by_name;
  for (const TensorInfo& info : found) by_name[info.name].first = &info;
  for (const TensorInfo& info : wanted) by_name[info.name].second = &info;
  std::vector<std::string> lines;
  for (const auto& [name, pair] : by_name) {
    const auto& [have, want] = pair;
    if (!want) {
      lines.push_back(fmt::format("extra tensor \"{}\"", name));
    } else if (!have) {
      lines.push_back(fmt::format("missing tensor \"{}\"", name));
    } else if (have->shape != want->shape) {
      lines.push_back(fmt::format("tensor \"{}\" has shape {}; {} is needed",
                                  name,
                                  shape_text(have->shape),
                                  shape_text(want->shape)));
    } else if (have->dtype != want->dtype) {
      lines.push_back(fmt::format(
          "tensor \"{}\" is {}; {} is needed", name, to_string(have->dtype), to_string(want->dtype)));
    }
  }
  return lines;
}

}  // namespace llmtrain
