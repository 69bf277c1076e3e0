#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "llmtrain/monitor/append_file.hpp"
#include "llmtrain/monitor/events.hpp"

// The run's own record: metrics.jsonl gets one row for every step, events.jsonl everything else.
//
// Both files are appended over restarts and every line is visible as soon as on() returns. A full or broken
// disk never stops training: the line is lost, counted, and the next one is tried again.
namespace llmtrain {

class JsonlSink final : public EventSink {
 public:
  // `run_dir` must exist.
  static Result<std::unique_ptr<JsonlSink>> open(const std::string& run_dir);

  void on(const Event& event) override;

  const std::optional<Error>& first_failure() const { return first_failure_; }
  std::int64_t lost_lines() const { return lost_lines_; }

 private:
  JsonlSink(AppendFile metrics, AppendFile events)
      : metrics_(std::move(metrics)), events_(std::move(events)) {}

  AppendFile metrics_;
  AppendFile events_;
  std::optional<Error> first_failure_;
  std::int64_t lost_lines_ = 0;
};

}  // namespace llmtrain
