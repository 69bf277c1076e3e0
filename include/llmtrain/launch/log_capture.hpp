#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/launch/line_filter.hpp"
#include "llmtrain/launch/storm_gate.hpp"

// One stream of one worker: from its pipe into its file, and line by line to whoever listens.
//
// The file is rotated by bytes. Pieces are <path>, <path>.1, <path>.2, ... in the order of time. The first is
// kept for good, since it tells how a failure began; of the others the newest `keep` stay. A disk that is
// full or a file that cannot be made costs the worker nothing: its output is read and dropped, and counted.
// Nothing here blocks.
namespace llmtrain {

struct LogLimits {
  std::uint64_t max_bytes = 64 << 20;  // of one piece; 0 = no rotation
  int keep = 4;                        // pieces besides the first
  StormLimits storm;
  std::size_t recent = 128 << 10;  // newest bytes that are held in memory, see since()
};

class LogCapture {
 public:
  using Line = std::function<void(std::string_view)>;  // without its newline; not yet fit for a terminal

  // `pipe` is the reading end; it is made non-blocking. `line` may be empty.
  static Result<LogCapture> start(UniqueFd pipe, std::string path, const LogLimits& limits, Line line);

  int fd() const { return pipe_.get(); }  // -1 at the end of the stream: poll passes over it
  bool done() const { return !pipe_.valid(); }
  std::optional<StormGate::Instant> deadline() const { return gate_.deadline(); }

  // Takes what has arrived, at most about a mebibyte at a time, so that no worker keeps the agent from
  // others.
  void pump(StormGate::Instant now);
  // The worker is gone: takes the rest, without waiting for grandchildren that hold the pipe, and closes.
  void finish(StormGate::Instant now);

  // What came last, as it came: a flood, a rotation or a full disk takes nothing away from it. `seen` counts
  // the bytes of the stream; since() gives those after such a count that are still held.
  std::uint64_t seen() const { return seen_; }
  std::string_view since(std::uint64_t seen) const;
  std::vector<std::string> tail(std::size_t max_lines) const;  // printable, see last_lines()

  std::uint64_t dropped() const { return gate_.dropped(); }  // by the storm limit
  std::uint64_t lost() const { return lost_; }               // that the file could not take

 private:
  LogCapture(UniqueFd pipe, UniqueFd file, std::string path, LogLimits limits, Line line);

  void remember(std::string_view bytes);
  void take(StormGate::Instant now, std::string_view bytes);
  void say_dropped(std::optional<std::uint64_t> bytes);
  void write(std::string_view bytes);
  void rotate();

  UniqueFd pipe_;
  UniqueFd file_;
  std::string path_;
  LogLimits limits_;
  Line line_;
  LineFilter filter_;
  StormGate gate_;
  std::uint64_t in_piece_ = 0;  // bytes of the piece that is being written
  int piece_ = 0;               // its number
  bool mid_line_ = false;       // the file ends inside a line
  bool inside_dropped_line_ = false;
  std::uint64_t lost_ = 0;
  std::string recent_;
  std::uint64_t seen_ = 0;
};

}  // namespace llmtrain
