#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "llmtrain/core/filesystem.hpp"

// A writable file behind one block of memory, for writers of many small values (little-endian).
namespace llmtrain {

class BufferedFile {
 public:
  static Result<BufferedFile> create(FileSystem& files, const std::string& path) {
    LLMTRAIN_ASSIGN(file, files.create(path));
    return BufferedFile(std::move(file));
  }

  template <class T>
  requires std::is_trivially_copyable_v<T> Status put(const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    buffer_.insert(buffer_.end(), bytes, bytes + sizeof value);
    return buffer_.size() >= kBlock ? flush() : ok_status();
  }

  Status flush() {
    if (buffer_.empty()) return ok_status();
    const Status status = file_->append(buffer_);
    buffer_.clear();
    return status;
  }

  // Everything is on the disk when this returns.
  Status commit() {
    LLMTRAIN_TRY(flush());
    LLMTRAIN_TRY(file_->sync());
    return file_->close();
  }
  // Everything is readable when this returns.
  Status close() {
    LLMTRAIN_TRY(flush());
    return file_->close();
  }

 private:
  static constexpr std::size_t kBlock = 1 << 20;

  explicit BufferedFile(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  std::unique_ptr<WritableFile> file_;
  std::vector<std::byte> buffer_;
};

}  // namespace llmtrain
