#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/logs/line_gap.hpp"

// A log on disk, rotated by bytes.
//
// Pieces are <path>, <path>.1, <path>.2, ... in the order of time. The first is kept for good, since it tells
// how a failure began; of the others the newest `keep` stay. What the disk does not take is lost, counted,
// and said in the log as soon as the disk takes something again. Every call waits for the disk, as long as it
// takes: who cannot wait uses a LogWriter.
namespace llmtrain {

class LogFile {
 public:
  LogFile(std::string path, std::uint64_t max_bytes, int keep)
      : path_(std::move(path)), max_bytes_(max_bytes), keep_(keep) {}

  const std::string& path() const { return path_; }
  // Makes the file, and its directory where there is none. write() tries it again.
  bool open();
  void write(std::string_view bytes);

  struct Lost {
    std::uint64_t lines = 0;
    int error = 0;  // errno of the newest failure
  };
  // Since the last call.
  Lost take_lost();

 private:
  std::size_t put(std::string_view bytes);  // how many were written
  void lose(std::string_view bytes);
  void rotate();

  std::string path_;
  std::uint64_t max_bytes_;  // of one piece; 0 = no rotation
  int keep_;                 // pieces besides the first
  UniqueFd file_;
  std::uint64_t in_piece_ = 0;  // bytes of the piece that is being written
  int piece_ = 0;               // its number
  bool mid_line_ = false;       // the file ends inside a line
  LineGap gap_;
  std::uint64_t reported_ = 0;  // lines of the gap that take_lost() has given out
  std::uint64_t lost_ = 0;      // lines of gaps that are closed, not given out
  int error_ = 0;
};

}  // namespace llmtrain
