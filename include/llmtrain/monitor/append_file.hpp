#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// A text file that grows by whole lines, over the lives of several processes, one writer at a time.
//
// Each line is one write() in append mode, so a reader sees it whole as soon as append() returns. A last
// line that a killed writer left torn is cut off when it is no JSON object, and ended when it is one, so
// that every line of the file can be parsed. No fsync: a crash of the machine may lose the last lines.
namespace llmtrain {

class AppendFile {
 public:
  // Opens or makes `path` and mends its end.
  static Result<AppendFile> open(const std::string& path);

  // Adds `line` and a newline. After a failure (a full disk) the next call mends the end first.
  Status append(std::string_view line);

 private:
  AppendFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Status mend_end();
  Error failure(const char* what) const;

  UniqueFd fd_;
  std::string path_;
  bool torn_ = true;  // the end of the file is not known to be whole
};

}  // namespace llmtrain
