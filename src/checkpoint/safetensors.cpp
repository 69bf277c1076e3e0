#include "llmtrain/checkpoint/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "strict_json.hpp"

namespace llmtrain {
namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

constexpr std::uint64_t kLengthBytes = 8;
constexpr int kMaxDepth = 4;  // header, tensor, array, and one to spare
constexpr std::size_t kMaxDimensions = 64;

// elements x bytes without overflow; absent when it exceeds any real file.
std::optional<std::uint64_t> bytes_needed(const std::vector<std::int64_t>& shape, StoredType type) {
  std::uint64_t bytes = bytes_of(type);
  for (const std::int64_t extent : shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  return bytes;
}

Result<SafetensorsEntry> parse_entry(const std::string& name, const json& value, const std::string& origin) {
  JsonFields fields(value, fmt::format("{}: tensor \"{}\"", origin, name));
  const std::string type_name = fields.text("dtype");
  SafetensorsEntry entry{name, StoredType::kF32, fields.integers("shape", kMaxDimensions), 0, 0};
  const std::vector<std::int64_t> offsets = fields.integers("data_offsets", 2);
  if (!fields.ok()) return fields.error();
  if (value.size() != 3) fields.fail("has keys beside dtype, shape and data_offsets");
  if (offsets.size() != 2) fields.fail("data_offsets needs a begin and an end");
  if (const auto type = stored_type_of(type_name)) {
    entry.type = *type;
  } else {
    fields.fail(fmt::format("dtype \"{}\" is not known", type_name));
  }
  if (!fields.ok()) return fields.error();
  entry.begin = static_cast<std::uint64_t>(offsets[0]);
  entry.end = static_cast<std::uint64_t>(offsets[1]);
  const auto bytes = bytes_needed(entry.shape, entry.type);
  if (!bytes || entry.end < entry.begin || entry.end - entry.begin != *bytes)
    fields.fail(fmt::format("its bytes [{}, {}) do not fit {} elements of {}",
                            entry.begin,
                            entry.end,
                            type_name,
                            fmt::format("{}", fmt::join(entry.shape, "x"))));
  if (!fields.ok()) return fields.error();
  return entry;
}

Status check_tiling(const std::vector<SafetensorsEntry>& entries,
                    std::uint64_t data_bytes,
                    const std::string& origin) {
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected)
      return Error{
          ErrorCode::kCorrupt,
          fmt::format("{}: tensor \"{}\" begins at byte {} of the data; {} is where the one before it ends",
                      origin,
                      entry.name,
                      entry.begin,
                      expected),
          ""};
    expected = entry.end;
  }
  if (expected != data_bytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: the tensors have {} bytes and the file holds {} behind its header",
                             origin,
                             expected,
                             data_bytes),
                 expected > data_bytes ? "the file is cut off" : ""};
  return ok_status();
}

Result<SafetensorsHeader> parse_json(std::string_view text,
                                     std::uint64_t data_bytes,
                                     const std::string& origin) {
  if (text.empty() || text.front() != '{')
    return Error{
        ErrorCode::kCorrupt, origin + ": the header does not begin with '{'", "is this a safetensors file?"};
  LLMTRAIN_ASSIGN(root, parse_strict_json(text, kMaxDepth, origin));
  SafetensorsHeader header;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") {
      if (!value.is_object())
        return Error{ErrorCode::kCorrupt, origin + ": __metadata__ is not an object", ""};
      for (const auto& [key, text_value] : value.items()) {
        if (!text_value.is_string())
          return Error{
              ErrorCode::kCorrupt, fmt::format("{}: __metadata__ \"{}\" is not a string", origin, key), ""};
        header.metadata[key] = text_value.get<std::string>();
      }
      continue;
    }
    LLMTRAIN_ASSIGN(entry, parse_entry(name, value, origin));
    header.entries.push_back(std::move(entry));
  }
  // Empty tensors share their begin with the next one: the end decides then.
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  LLMTRAIN_TRY(check_tiling(header.entries, data_bytes, origin));
  return header;
}

// Length of the JSON, checked against the file.
Result<std::uint64_t> json_bytes(std::span<const std::byte> start,
                                 std::uint64_t file_bytes,
                                 const std::string& origin) {
  if (file_bytes < kLengthBytes || start.size() < kLengthBytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: {} bytes are too few for a safetensors file", origin, file_bytes),
                 ""};
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length > kSafetensorsHeaderMax)
    return Error{
        ErrorCode::kCorrupt,
        fmt::format(
            "{}: a header of {} bytes; at most {} are allowed", origin, length, kSafetensorsHeaderMax),
        "is this a safetensors file?"};
  if (length > file_bytes - kLengthBytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{}: a header of {} bytes in a file of {}", origin, length, file_bytes),
                 "the file is cut off"};
  return length;
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  for (const SafetensorsEntry& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> start,
                                                   std::uint64_t file_bytes,
                                                   const std::string& origin) {
  LLMTRAIN_ASSIGN(length, json_bytes(start, file_bytes, origin));
  if (start.size() - kLengthBytes < length)
    return Error{ErrorCode::kInternal,
                 fmt::format("{}: {} of {} header bytes were given", origin, start.size(), length + 8),
                 ""};
  const std::string_view text(reinterpret_cast<const char*>(start.data()) + kLengthBytes, length);
  LLMTRAIN_ASSIGN(header, parse_json(text, file_bytes - kLengthBytes - length, origin));
  header.data_start = kLengthBytes + length;
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(file, files.open(path));
  LLMTRAIN_ASSIGN(size, file->size());
  std::vector<std::byte> start(kLengthBytes);
  LLMTRAIN_ASSIGN(got, file->read_at(0, start));
  start.resize(got);
  LLMTRAIN_ASSIGN(length, json_bytes(start, size, path));
  start.resize(kLengthBytes + length);
  LLMTRAIN_ASSIGN(all, file->read_at(0, start));
  start.resize(all);
  return parse_safetensors_header(start, size, path);
}

Result<std::string> make_safetensors_header(std::vector<SafetensorsEntry>& entries,
                                            const std::map<std::string, std::string>& metadata) {
  json root;
  root["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (SafetensorsEntry& entry : entries) {
    entry.begin = at;
    at += bytes_needed(entry.shape, entry.type).value();
    entry.end = at;
    root[entry.name] = {{"dtype", to_string(entry.type)},
                        {"shape", entry.shape},
                        {"data_offsets", json::array({entry.begin, entry.end})}};
  }
  std::string text = root.dump();
  text.append(
      (kSafetensorsAlignment - (kLengthBytes + text.size()) % kSafetensorsAlignment) % kSafetensorsAlignment,
      ' ');
  if (text.size() > kSafetensorsWriteHeaderMax)
    return Error{ErrorCode::kUnsupported,
                 fmt::format("{} tensors need a header of {} bytes; readers accept {}",
                             entries.size(),
                             text.size(),
                             kSafetensorsWriteHeaderMax),
                 "write fewer pieces into one file"};
  std::string header(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + text;
}

}  // namespace llmtrain
