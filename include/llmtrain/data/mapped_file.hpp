#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// A whole file mapped read-only; move-only.
//
// The mapping is not a snapshot: `check_size` tells whether the file shrank since it was opened, so
// that a reader can return an error where touching the lost pages would kill the process. An empty
// file is a valid mapping of no bytes.
namespace llmtrain {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  std::span<const unsigned char> bytes() const { return {data_, static_cast<std::size_t>(size_)}; }

  // An error when the file is now smaller than the mapping.
  Status check_size() const;
  // Tells the system that this range is needed now.
  void will_need(std::int64_t offset, std::int64_t length) const;

 private:
  void swap(MappedFile& other) noexcept;

  std::string path_;
  UniqueFd fd_;
  const unsigned char* data_ = nullptr;
  std::int64_t size_ = 0;
};

}  // namespace llmtrain
