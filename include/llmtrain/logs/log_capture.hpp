#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/logs/line_filter.hpp"
#include "llmtrain/logs/log_writer.hpp"
#include "llmtrain/logs/storm_gate.hpp"

// One stream of one worker: from its pipe into its log, and line by line to whoever listens.
//
// A log that cannot be written costs the worker nothing: its output is read and dropped, and counted. Nothing
// here waits, neither for the worker nor for the disk.
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

  // `pipe` is the reading end; it is made non-blocking. `line` may be empty. Of the limits, those of files
  // are the log's own.
  static Result<LogCapture> start(UniqueFd pipe, LogWriter::Log log, const LogLimits& limits, Line line);

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

 private:
  LogCapture(UniqueFd pipe, LogWriter::Log log, const LogLimits& limits, Line line);

  void remember(std::string_view bytes);
  void take(StormGate::Instant now, std::string_view bytes);
  void say_dropped(std::optional<std::uint64_t> bytes);
  void write(std::string_view bytes);

  UniqueFd pipe_;
  LogWriter::Log log_;
  std::size_t max_recent_;
  Line line_;
  LineFilter filter_;
  StormGate gate_;
  bool mid_line_ = false;  // what the log has got ends inside a line
  bool inside_dropped_line_ = false;
  std::string recent_;
  std::uint64_t seen_ = 0;
};

}  // namespace llmtrain
