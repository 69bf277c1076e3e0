#pragma once

#include <chrono>
#include <cstdint>
#include <string>

// One line on stderr that shows how far a command is; silent where stderr is no terminal.
namespace llmtrain::cli {

class ProgressLine {
 public:
  explicit ProgressLine(std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  // wipes the line

  // `unit` follows both numbers; at most ten updates a second are drawn.
  void show(std::int64_t done, std::int64_t total, const char* unit);

 private:
  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace llmtrain::cli
