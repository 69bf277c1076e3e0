#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "llmtrain/monitor/events.hpp"
#include "llmtrain/monitor/progress.hpp"

// What a person watches: a progress bar with the time left on a terminal, plain stable lines elsewhere.
//
// Away from a terminal nothing but printable text and newlines is written. Rows of comm_totals and memory
// go to events.jsonl only.
namespace llmtrain {

struct ConsoleOptions {
  bool terminal = false;          // draw the bar, rewrite the last line, colour warnings
  std::int64_t log_interval = 1;  // without a terminal: first step, every n-th, and the last
  std::function<int()> width;     // columns of the terminal, asked at each drawing; absent: 80
};

class ConsoleSink final : public EventSink {
 public:
  using Write = std::function<void(std::string_view)>;

  ConsoleSink(ConsoleOptions options, Write write) : options_(std::move(options)), write_(std::move(write)) {}
  ~ConsoleSink() override;

  void on(const Event& event) override;

 private:
  void on_step(const Event& event, const StepReport& report);
  void print(const std::string& line, Severity severity);
  void draw(const StepReport& report);
  std::string bar(const StepReport& report) const;

  ConsoleOptions options_;
  Write write_;
  Progress progress_;
  std::string drawn_;  // the bar that stands on the last line of the terminal; empty = none
  double drawn_at_ = 0;
  bool first_step_ = true;  // of this incarnation
  std::int64_t skipped_ = 0;
};

// Options and writer for an open descriptor: asks the system whether it is a terminal and how wide. Short or
// failed writes lose text and nothing else.
ConsoleOptions console_options(int fd, std::int64_t log_interval);
ConsoleSink::Write write_to(int fd);

}  // namespace llmtrain
