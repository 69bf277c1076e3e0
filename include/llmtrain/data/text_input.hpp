#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/mapped_file.hpp"

// Text files in pieces that can be worked on apart: some lines of a .jsonl, or a stretch of a .txt.
//
// A .txt file (also .text, .md, or no extension) is one document; a .jsonl (.ndjson) is one document a
// line. Files are mapped, so a file of any size needs no memory.
namespace llmtrain {

enum class TextKind { kPlain, kJsonLines };

// By the extension, in either case; kUsage for one that says nothing of a text.
Result<TextKind> text_kind_of(const std::string& path);

struct TextPiece {
  std::shared_ptr<const MappedFile> file;  // keeps `text` alive while threads work on it
  TextKind kind = TextKind::kPlain;
  std::string_view text;
  std::int64_t first_line = 1;  // of the piece
  bool begins_file = false;
  bool ends_file = false;
};

// Where a plain text may be cut near `target`; 0 for nowhere. See Tokenizer::safe_cut.
using SafeCut = std::function<std::size_t(std::string_view text, std::size_t target)>;

class TextInput {
 public:
  // Opens every file, so that a missing one is reported before any work.
  static Result<TextInput> open(const std::vector<std::string>& paths, SafeCut safe_cut);

  // The next piece, absent at the end. Pieces come in the order of the files.
  std::optional<TextPiece> next();
  std::int64_t num_bytes() const;
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }

 private:
  TextPiece next_lines(std::string_view rest);
  TextPiece next_stretch(std::string_view rest);

  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<TextKind> kinds_;
  SafeCut safe_cut_;
  std::size_t file_ = 0;
  std::size_t offset_ = 0;
  std::int64_t line_ = 1;
};

// How texts are read out of pieces; what is skipped is counted.
struct TextRules {
  std::string text_key = "text";  // of .jsonl objects
  bool strip_bom = false;
  bool normalize_newlines = false;  // CRLF and lone CR become LF
};

struct TextCounts {
  std::int64_t texts = 0;
  std::int64_t bytes = 0;         // of the texts that were kept
  std::int64_t empty = 0;         // skipped: no characters
  std::int64_t blank = 0;         // skipped: white space only
  std::int64_t null = 0;          // skipped: JSON null
  std::int64_t blank_lines = 0;   // of .jsonl files
  std::int64_t with_bom = 0;      // files that begin with a byte-order mark
  std::int64_t with_crlf = 0;     // pieces that hold CRLF line ends
  std::int64_t invalid_utf8 = 0;  // pieces that hold bytes that are no UTF-8

  void add(const TextCounts& other);
};

// Calls `visit(text, ends_document)` for the texts of a piece. An error names file and line.
Status visit_texts(const TextPiece& piece,
                   const TextRules& rules,
                   TextCounts& counts,
                   const std::function<Status(std::string_view, bool)>& visit);

}  // namespace llmtrain
