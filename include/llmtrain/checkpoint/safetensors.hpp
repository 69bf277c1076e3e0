#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// The safetensors file format: a little-endian length, a JSON header, then the tensors' bytes.
//
// Reading is strict, since the bytes may come from anywhere: lengths are bounded before anything is
// allocated, names are unique and never paths, and the tensors tile the data without hole or overlap.
namespace llmtrain {

// Element types by their name in the file; sub-byte types are not read.
enum class StoredType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64
};

std::string_view to_string(StoredType type);  // "BF16"
std::optional<StoredType> stored_type_of(std::string_view name);
std::uint64_t bytes_of(StoredType type);
StoredType stored_type_of(DType dtype);
std::optional<DType> dtype_of(StoredType type);  // absent: training never has it

struct SafetensorsEntry {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // byte offsets from the start of the data
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // ascending `begin`
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;  // byte offset in the file

  const SafetensorsEntry* find(std::string_view name) const;
};

inline constexpr std::uint64_t kSafetensorsHeaderMax = 100'000'000;      // what the reference reader accepts
inline constexpr std::uint64_t kSafetensorsWriteHeaderMax = 25'000'000;  // what every reader accepts
inline constexpr std::uint64_t kSafetensorsAlignment = 64;  // of the data start in files we write

// Reads the header of a file of `file_bytes` bytes; `origin` names it in errors.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> start,
                                                   std::uint64_t file_bytes,
                                                   const std::string& origin);
Result<SafetensorsHeader> read_safetensors_header(FileSystem& files, const std::string& path);

// Length word, JSON and padding for tensors that follow each other in this order; sets begin and end.
Result<std::string> make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                            const std::map<std::string, std::string>& metadata);

}  // namespace llmtrain
