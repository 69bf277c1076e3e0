#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/monitor/events.hpp"

// The reports of the last steps, as they travel with each checkpoint of a job on several nodes.
//
// A leader that stands still writes nothing down while its workers go on, and even save. Whoever resumes
// from such a checkpoint finds in it what metrics.jsonl lacks. It is no second history: only the time that
// a leader may be deaf before it is replaced is kept, several times over.
namespace llmtrain {

class RecentSteps {
 public:
  static constexpr double kSpan = 60;                  // seconds before the newest
  static constexpr std::size_t kMost = 4096;           // steps
  static constexpr const char* kFile = "steps.jsonl";  // in the checkpoint
  static constexpr std::size_t kMaxBytes = kMost * 1024;

  void saw(const Event& event);  // others than StepReport are passed over
  std::string text() const;      // a line for each, oldest first

 private:
  struct Row {
    double time = 0;
    std::string line;
  };
  std::deque<Row> rows_;
};

// The inverse of text(). A line that is no step is an error (kCorrupt).
Result<std::vector<Event>> read_recent_steps(std::string_view text);

}  // namespace llmtrain
