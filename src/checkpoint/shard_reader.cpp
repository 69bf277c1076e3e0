#include "shard_reader.hpp"

#include <cstring>

#include <fmt/format.h>

namespace llmtrain {

Result<ShardReader> ShardReader::open(FileSystem& files,
                                      const std::string& directory,
                                      const FileRecord& record) {
  LLMTRAIN_ASSIGN(file, VerifiedFile::open(files, directory, record));
  ShardReader reader(std::move(file));
  LLMTRAIN_TRY(reader.load_header(record));
  return reader;
}

Status ShardReader::load_header(const FileRecord& record) {
  const auto broken = [&](std::string what) {
    return Error{ErrorCode::kCorrupt, file_.path() + ": " + std::move(what), ""};
  };
  if (record.bytes < 8) return broken("too short for a safetensors file");
  std::vector<std::byte> start(8);
  LLMTRAIN_TRY(file_.read(0, start));
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof(length));
  if (length > kSafetensorsHeaderMax || length > record.bytes - 8)
    return broken(fmt::format("a header of {} bytes", length));
  start.resize(8 + length);
  LLMTRAIN_TRY(file_.read(0, start));
  LLMTRAIN_ASSIGN(header, parse_safetensors_header(start, record.bytes, file_.path()));

  std::map<std::string_view, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries[entry.name] = &entry;
  for (const PieceRecord& piece : record.pieces) {
    const std::string name = piece_name(piece.name, piece.shape, piece.box);
    const auto found = entries.find(name);
    if (found == entries.end())
      return broken(fmt::format("the manifest lists \"{}\" and the header does not", name));
    if (found->second->shape != piece.box.extent || found->second->type != stored_type_of(piece.dtype))
      return broken(fmt::format("header and manifest disagree on type or shape of \"{}\"", name));
    start_[&piece] = header.data_start + found->second->begin;
  }
  if (entries.size() != record.pieces.size())
    return broken(
        fmt::format("the header lists {} tensors and the manifest {}", entries.size(), record.pieces.size()));
  return ok_status();
}

Status ShardReader::read(const PieceRecord& piece, std::uint64_t offset, std::span<std::byte> out) {
  return file_.read(start_.at(&piece) + offset, out);
}

}  // namespace llmtrain
