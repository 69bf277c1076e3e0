#include "verified_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/crc32c.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {

VerifiedFile::VerifiedFile(std::unique_ptr<ReadableFile> file, std::string path, const FileRecord& record)
    : file_(std::move(file)), path_(std::move(path)), record_(&record) {}

Result<VerifiedFile> VerifiedFile::open(FileSystem& files,
                                        const std::string& directory,
                                        const FileRecord& record) {
  const std::string path = join_path(directory, record.name);
  LLMTRAIN_ASSIGN(file, files.open(path));
  LLMTRAIN_ASSIGN(bytes, file->size());
  if (bytes != record.bytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} has {} bytes; the manifest says {}", path, bytes, record.bytes),
                 bytes < record.bytes ? fmt::format("it is cut off at offset {}", bytes)
                                      : fmt::format("bytes were added at offset {}", record.bytes)};
  return VerifiedFile(std::move(file), path, record);
}

Status VerifiedFile::read(std::uint64_t offset, std::span<std::byte> out) {
  LLMTRAIN_CHECK(offset <= record_->bytes && out.size() <= record_->bytes - offset,
                 "{} bytes at {} of {}",
                 out.size(),
                 offset,
                 path_);
  while (!out.empty()) {
    const std::size_t index = offset / kBlockBytes;
    const std::uint64_t inside = offset % kBlockBytes;
    const std::uint64_t length = block_bytes(index);
    if (inside == 0 && out.size() >= length && kept_ != index) {
      // The whole block is wanted: no copy through ours.
      LLMTRAIN_ASSIGN(damage, read_block(index, out.first(length)));
      if (damage) return damage_error(*damage);
      offset += length;
      out = out.subspan(length);
      continue;
    }
    LLMTRAIN_TRY(keep_block(index));
    const std::size_t taken = std::min<std::size_t>(out.size(), length - inside);
    std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(inside), taken, out.begin());
    offset += taken;
    out = out.subspan(taken);
  }
  return ok_status();
}

Result<std::optional<BlockDamage>> VerifiedFile::check_block(std::size_t index) {
  kept_.reset();
  block_.resize(block_bytes(index));
  LLMTRAIN_ASSIGN(damage, read_block(index, block_));
  if (!damage) kept_ = index;
  return damage;
}

Status VerifiedFile::keep_block(std::size_t index) {
  if (kept_ == index) return ok_status();
  LLMTRAIN_ASSIGN(damage, check_block(index));
  return damage ? Status(damage_error(*damage)) : ok_status();
}

std::uint64_t VerifiedFile::block_bytes(std::size_t index) const {
  return std::min<std::uint64_t>(kBlockBytes, record_->bytes - index * kBlockBytes);
}

Result<std::optional<BlockDamage>> VerifiedFile::read_block(std::size_t index, std::span<std::byte> out) {
  const std::uint64_t begin = index * kBlockBytes;
  const std::uint64_t end = begin + out.size();
  LLMTRAIN_ASSIGN(got, file_->read_at(begin, out));
  if (got != out.size())
    return std::optional(
        BlockDamage{begin + got, end, fmt::format("the file ends at offset {}", begin + got)});
  const std::uint32_t expected = record_->block_crc32c[index];
  const std::uint32_t found = crc32c(out);
  if (found == expected) return std::optional<BlockDamage>();
  const std::string sums = fmt::format("checksum {:08x} found, {:08x} written", found, expected);
  if (const auto change = locate_single_byte(expected, found, out.size())) {
    const std::uint64_t at = begin + change->offset;
    const auto now = static_cast<std::uint8_t>(out[change->offset]);
    return std::optional(BlockDamage{
        at,
        at + 1,
        fmt::format("byte {} is 0x{:02x} and was 0x{:02x} ({})", at, now, now ^ change->difference, sums)});
  }
  return std::optional(
      BlockDamage{begin, end, fmt::format("damage in bytes {} to {} ({})", begin, end, sums)});
}

Error VerifiedFile::damage_error(const BlockDamage& damage) const {
  return {ErrorCode::kCorrupt, fmt::format("{}: {}", path_, damage.what), ""};
}

}  // namespace llmtrain
