#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/core/filesystem.hpp"

// Is a step directory what was committed? Every byte of every file is covered; each damage is named.
namespace llmtrain {

enum class VerifyDepth {
  kSizes,  // the manifest, and presence and size of every file: milliseconds
  kFull,   // every byte, and every header against the manifest
};

struct Damage {
  std::string file;                    // name inside the directory; empty: the directory itself
  std::optional<std::uint64_t> begin;  // byte range that holds the damage, when it has one
  std::optional<std::uint64_t> end;
  std::string what;  // names the offset too
};
std::string to_string(
    const Damage& damage);  // "weights-00000-of-00001.safetensors: byte 17 is 0x00 and was 0x20 (...)"

struct VerifyReport {
  std::string directory;
  std::uint64_t bytes_checked = 0;
  std::vector<Damage> damages;
  bool intact() const { return damages.empty(); }
};

VerifyReport verify_checkpoint(FileSystem& files, const std::string& directory, VerifyDepth depth);
// Presence and size of every file, when the manifest's records are at hand; it is not read again.
VerifyReport verify_sizes(FileSystem& files,
                          const std::string& directory,
                          std::span<const FileRecord> records);

}  // namespace llmtrain
