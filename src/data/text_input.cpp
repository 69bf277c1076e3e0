#include "llmtrain/data/text_input.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr std::size_t kPiece = 1 << 20;

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), static_cast<std::size_t>(file.size())};
}

}  // namespace

Result<TextKind> text_kind_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(
      extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return std::tolower(c); });
  if (extension == ".jsonl" || extension == ".ndjson") return TextKind::kJsonLines;
  if (extension.empty() || extension == ".txt" || extension == ".text" || extension == ".md")
    return TextKind::kPlain;
  return Error{
      ErrorCode::kUsage,
      fmt::format("{}: what `{}` files hold is not known; allowed are .txt, .text, .md and .jsonl, .ndjson",
                  path,
                  extension),
      "convert the file, or rename it if it is plain text"};
}

Result<TextInput> TextInput::open(const std::vector<std::string>& paths, SafeCut safe_cut) {
  if (paths.empty()) return Error{ErrorCode::kUsage, "no input file is named", "name .txt or .jsonl files"};
  TextInput input;
  input.safe_cut_ = std::move(safe_cut);
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      return Error{ErrorCode::kUsage,
                   fmt::format("{}: is a directory", path),
                   fmt::format("name the files in it, such as {}/*.txt", path)};
    }
    LLMTRAIN_ASSIGN(file, MappedFile::open(path));
    LLMTRAIN_ASSIGN(kind, text_kind_of(path));
    input.files_.push_back(std::make_shared<MappedFile>(std::move(file)));
    input.kinds_.push_back(kind);
  }
  return input;
}

std::int64_t TextInput::num_bytes() const {
  std::int64_t sum = 0;
  for (const auto& file : files_) sum += file->size();
  return sum;
}

std::optional<TextPiece> TextInput::next() {
  if (file_ == files_.size()) return std::nullopt;
  const std::string_view rest = text_of(*files_[file_]).substr(offset_);
  TextPiece piece = kinds_[file_] == TextKind::kJsonLines ? next_lines(rest) : next_stretch(rest);
  piece.file = files_[file_];
  piece.kind = kinds_[file_];
  piece.begins_file = offset_ == 0;
  piece.first_line = line_;
  offset_ += piece.text.size();
  piece.ends_file = piece.text.size() == rest.size();
  if (piece.kind == TextKind::kJsonLines) line_ += std::count(piece.text.begin(), piece.text.end(), '\n');
  if (piece.ends_file) {
    ++file_;
    offset_ = 0;
    line_ = 1;
  }
  return piece;
}

TextPiece TextInput::next_lines(std::string_view rest) {
  TextPiece piece;
  const std::size_t end = rest.size() <= kPiece ? std::string_view::npos : rest.find('\n', kPiece);
  piece.text = end == std::string_view::npos ? rest : rest.substr(0, end + 1);
  return piece;
}

TextPiece TextInput::next_stretch(std::string_view rest) {
  TextPiece piece;
  const std::size_t cut = rest.size() <= 2 * kPiece ? 0 : safe_cut_(rest, kPiece);
  piece.text = cut == 0 ? rest : rest.substr(0, cut);
  return piece;
}

}  // namespace llmtrain
