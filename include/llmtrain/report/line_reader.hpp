#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// The lines of a file that may be large and may still grow, in bounded memory.
//
// A last line without its newline is torn or still being written: it is counted and not given out. A line
// longer than a mebibyte is nobody's record: it is skipped and counted.
namespace llmtrain {

class LineReader {
 public:
  // Starts at the first whole line that begins at or behind byte `from`. A missing file has no lines.
  static Result<LineReader> open(FileSystem& files, const std::string& path, std::uint64_t from = 0);

  // The next line, valid until the next call; false at the end. A read error ends it and is kept.
  bool next(std::string_view& line);

  bool torn() const { return torn_; }
  std::int64_t too_long() const { return too_long_; }
  const std::string& problem() const { return problem_; }

 private:
  bool fill();

  std::unique_ptr<ReadableFile> file_;  // none: no such file
  std::uint64_t offset_ = 0;            // of the bytes behind the buffer
  std::string buffer_;
  std::size_t begin_ = 0;  // of what has not been given out
  bool end_ = false;
  bool skipping_ = false;  // inside of a line that is not wanted
  bool torn_ = false;
  std::int64_t too_long_ = 0;
  std::string problem_;
};

}  // namespace llmtrain
