#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Where output was not kept: how many lines are missing, and how the text goes on behind them.
//
// Behind a gap a log starts with a whole line again: the rest of one that was lost in part is lost too.
namespace llmtrain {

class LineGap {
 public:
  bool open() const { return lines_ > 0 || inside_; }
  std::uint64_t lines() const { return lines_ + (inside_ ? 1 : 0); }

  void lose(std::string_view bytes);
  // `bytes` from the first line on that is whole; what is in front of it is lost.
  std::string_view whole_lines_of(std::string_view bytes);
  // The line that stands for the gap, and closes it. `mid_line`: the text in front ends inside a line.
  std::string close(std::string_view why, bool mid_line);

 private:
  std::uint64_t lines_ = 0;
  bool inside_ = false;  // the end of the last one has not come
};

}  // namespace llmtrain
