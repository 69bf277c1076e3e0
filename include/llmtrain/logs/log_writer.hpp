#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/instant.hpp"

// Writes the logs of a node's workers on a thread of its own.
//
// An agent has to hear and to be heard in time, whatever becomes of the disk that holds the logs: no call
// here waits for it but flush(), which is told how long. What the disk does not take in time waits in memory
// up to a bound; beyond it lines are dropped, counted, and said, in the log and by notice().
namespace llmtrain {

struct LogWaiting {
  std::size_t of_one_log = 8 << 20;
  std::size_t in_all = 32 << 20;
};

class LogWriter {
 public:
  class Log;

  explicit LogWriter(LogWaiting most = {});
  // Waits for nothing: what has not been written is, if the process lives long enough and the disk lets it.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // The file is made at once, though not in this call. One that cannot be made loses what is written to it.
  Log open(std::string path, std::uint64_t max_bytes, int keep);

  // What was lost since this last said so, as a sentence; at most one in ten seconds.
  std::optional<std::string> notice(Instant now);
  // Waits until all is written, and says what was lost or is still waiting then.
  std::optional<std::string> flush(Milliseconds patience);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // the thread holds it too: a write that hangs outlives this object
  std::optional<Instant> said_;
};

// One log. It may outlive its writer: then what is written to it is lost.
class LogWriter::Log {
 public:
  Log() = default;
  ~Log();
  Log(Log&& other) noexcept : state_(std::move(other.state_)), id_(other.id_) {}
  Log& operator=(Log&& other) noexcept;

  void write(std::string_view bytes);

 private:
  friend class LogWriter;
  Log(std::shared_ptr<State> state, int id) : state_(std::move(state)), id_(id) {}

  std::shared_ptr<State> state_;
  int id_ = 0;
};

}  // namespace llmtrain
