#include "llmtrain/checkpoint/file_record.hpp"

#include <charconv>

#include <fmt/format.h>

#include "llmtrain/checkpoint/safetensors.hpp"
#include "llmtrain/core/crc32c.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "record_json.hpp"
#include "strict_json.hpp"

namespace llmtrain {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPieces = 10'000'000;
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kMaxName = 4096;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 50;

// Checksums are eight lower-case hexadecimal digits each, one after the other.
bool parse_crcs(std::string_view text, std::vector<std::uint32_t>& crcs) {
  if (text.size() % 8 != 0) return false;
  for (std::size_t at = 0; at < text.size(); at += 8) {
    const std::string_view digits = text.substr(at, 8);
    if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return false;
    std::uint32_t crc = 0;
    std::from_chars(digits.data(), digits.data() + 8, crc, 16);
    crcs.push_back(crc);
  }
  return true;
}

json to_json(const PieceRecord& piece) {
  json value = {
      {"name", piece.name}, {"dtype", to_string(stored_type_of(piece.dtype))}, {"shape", piece.shape}};
  if (piece.box != whole(piece.shape)) {
    value["offset"] = piece.box.offset;
    value["extent"] = piece.box.extent;
  }
  return value;
}

Result<PieceRecord> piece_record_of(const json& value, const std::string& where) {
  JsonFields fields(value, where + ": a tensor");
  PieceRecord piece;
  piece.name = fields.text("name");
  const std::string type = fields.text("dtype");
  piece.shape = fields.integers("shape", kMaxDimensions);
  piece.box = whole(piece.shape);
  if (fields.ok() && value.contains("offset")) {
    piece.box.offset = fields.integers("offset", kMaxDimensions);
    piece.box.extent = fields.integers("extent", kMaxDimensions);
  }
  if (!fields.ok()) return fields.error();
  if (piece.name.empty() || piece.name.size() > kMaxName) fields.fail("its name is empty or too long");
  const auto stored = stored_type_of(type);
  const auto dtype = stored ? dtype_of(*stored) : std::nullopt;
  if (!dtype)
    fields.fail(fmt::format("\"{}\" has dtype \"{}\"; BF16, F16, F32 and F64 are known", piece.name, type));
  std::uint64_t bytes = 8;
  for (const std::int64_t extent : piece.shape)
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || bytes > kMaxFileBytes)
      fields.fail(fmt::format("\"{}\" has the impossible shape {}", piece.name, shape_text(piece.shape)));
  if (!is_inside(piece.box, piece.shape))
    fields.fail(fmt::format("\"{}\": the piece at {} of extent {} does not lie in {}",
                            piece.name,
                            shape_text(piece.box.offset),
                            shape_text(piece.box.extent),
                            shape_text(piece.shape)));
  if (!fields.ok()) return fields.error();
  piece.dtype = *dtype;
  return piece;
}

}  // namespace

std::string hex8(std::uint32_t crc) {
  return fmt::format("{:08x}", crc);
}

json to_json(const FileRecord& record) {
  std::string blocks;
  for (const std::uint32_t crc : record.block_crc32c) blocks += hex8(crc);
  json value = {
      {"name", record.name}, {"bytes", record.bytes}, {"crc32c", hex8(record.crc32c)}, {"blocks", blocks}};
  if (!record.pieces.empty()) {
    json& tensors = value["tensors"] = json::array();
    for (const PieceRecord& piece : record.pieces) tensors.push_back(to_json(piece));
  }
  return value;
}

Result<FileRecord> file_record_of(const json& value, const std::string& where) {
  JsonFields fields(value, where + ": a file");
  FileRecord record;
  record.name = fields.text("name");
  record.bytes = fields.natural("bytes");
  const std::string crc = fields.text("crc32c");
  const std::string blocks = fields.text("blocks");
  if (!fields.ok()) return fields.error();
  if (!is_bare_name(record.name)) fields.fail(fmt::format("\"{}\" is not a plain file name", record.name));
  if (record.bytes > kMaxFileBytes)
    fields.fail(fmt::format("{} has {} bytes, which is impossible", record.name, record.bytes));
  std::vector<std::uint32_t> own;
  if (!parse_crcs(crc, own) || own.size() != 1 || !parse_crcs(blocks, record.block_crc32c))
    fields.fail(fmt::format("{}: a checksum is not eight hexadecimal digits", record.name));
  if (!fields.ok()) return fields.error();
  record.crc32c = own.front();
  const std::int64_t blocks_needed =
      ceil_div(static_cast<std::int64_t>(record.bytes), static_cast<std::int64_t>(kBlockBytes));
  if (std::ssize(record.block_crc32c) != blocks_needed)
    fields.fail(fmt::format(
        "{} has {} bytes and {} block checksums", record.name, record.bytes, record.block_crc32c.size()));
  else if (combine_blocks(record.block_crc32c, record.bytes) != record.crc32c)
    fields.fail(fmt::format("{}: the checksums of its blocks and of the file disagree", record.name));
  if (value.contains("tensors"))
    for (const json& tensor : fields.array("tensors", kMaxPieces)) {
      LLMTRAIN_ASSIGN(piece, piece_record_of(tensor, where + ": " + record.name));
      record.pieces.push_back(std::move(piece));
    }
  if (!fields.ok()) return fields.error();
  return record;
}

std::string encode_file_records(std::span<const FileRecord> records) {
  json root = {{"files", json::array()}};
  for (const FileRecord& record : records) root["files"].push_back(to_json(record));
  return root.dump();
}

Result<std::vector<FileRecord>> decode_file_records(std::string_view text, const std::string& origin) {
  constexpr int kMaxDepth = 8;
  LLMTRAIN_ASSIGN(root, parse_strict_json(text, kMaxDepth, origin));
  JsonFields fields(root, origin);
  std::vector<FileRecord> records;
  for (const json& value : fields.array("files", kMaxPieces)) {
    LLMTRAIN_ASSIGN(record, file_record_of(value, origin));
    records.push_back(std::move(record));
  }
  if (!fields.ok()) return fields.error();
  return records;
}

std::uint32_t combine_blocks(std::span<const std::uint32_t> blocks, std::uint64_t bytes) {
  std::uint32_t crc = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    crc = crc32c_combine(crc, blocks[i], i + 1 < blocks.size() ? kBlockBytes : bytes - i * kBlockBytes);
  return crc;
}

}  // namespace llmtrain
