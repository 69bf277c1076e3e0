#include "checksummed_file.hpp"

#include <algorithm>

#include "llmtrain/core/crc32c.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {

ChecksummedFile::ChecksummedFile(std::unique_ptr<WritableFile> file, std::string name)
    : file_(std::move(file)) {
  record_.name = std::move(name);
}

Result<ChecksummedFile> ChecksummedFile::create(FileSystem& files,
                                                const std::string& directory,
                                                const std::string& name) {
  LLMTRAIN_ASSIGN(file, files.create(join_path(directory, name)));
  return ChecksummedFile(std::move(file), name);
}

Status ChecksummedFile::append(std::span<const std::byte> bytes) {
  if (pending_.empty() && bytes.size() >= kBlockBytes) return write_out(bytes);
  const std::size_t taken = std::min<std::size_t>(bytes.size(), kBlockBytes - pending_.size());
  pending_.insert(pending_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken));
  if (pending_.size() < kBlockBytes) return ok_status();
  LLMTRAIN_TRY(write_out(pending_));
  pending_.clear();
  return bytes.size() > taken ? append(bytes.subspan(taken)) : ok_status();
}

Result<FileRecord> ChecksummedFile::finish() {
  LLMTRAIN_TRY(write_out(pending_));
  LLMTRAIN_TRY(file_->sync());
  LLMTRAIN_TRY(file_->close());
  record_.crc32c = combine_blocks(record_.block_crc32c, record_.bytes);
  return std::move(record_);
}

Status ChecksummedFile::write_out(std::span<const std::byte> bytes) {
  // Block by block, so that the checksum is taken while the bytes are in the cache.
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kBlockBytes));
    add_to_blocks(part);
    LLMTRAIN_TRY(file_->append(part));
    bytes = bytes.subspan(part.size());
  }
  return ok_status();
}

void ChecksummedFile::add_to_blocks(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t inside = record_.bytes % kBlockBytes;
    if (inside == 0) record_.block_crc32c.push_back(0);
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), kBlockBytes - inside));
    record_.block_crc32c.back() = crc32c(part, record_.block_crc32c.back());
    record_.bytes += part.size();
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace llmtrain
