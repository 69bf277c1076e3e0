#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

// Cuts a stream of bytes into whole lines for a console, and says which of them people must see.
//
// Memory is bounded: a line longer than the limit is given out in one piece of that length with a mark, and
// its rest is dropped. Nothing is read or written here.
namespace llmtrain {

inline constexpr std::size_t kMaxConsoleLine = 4096;

class LineFilter {
 public:
  using Line = std::function<void(std::string_view)>;

  void feed(std::string_view bytes, const Line& line);
  // The end of the stream: what has no newline is a line too.
  void finish(const Line& line);

 private:
  void give_out(const Line& line);

  std::string pending_;
  bool cut_ = false;  // the line in `pending_` is full; the rest of it is dropped
};

// Whether a line of a worker's output is a warning or an error by its words: "warning", "error", "fatal",
// "traceback", "terminate called", ... at a place where such words announce something.
bool is_alarming(std::string_view line);

// `text` as it may go to a terminal: control characters but tabs replaced.
std::string printable_line(std::string_view text);

}  // namespace llmtrain
