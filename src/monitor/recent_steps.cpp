#include "llmtrain/monitor/recent_steps.hpp"

#include <algorithm>

namespace llmtrain {

void RecentSteps::saw(const Event& event) {
  if (!std::holds_alternative<StepReport>(event.body)) return;
  rows_.push_back({event.time, to_json_line(event)});
  while (rows_.size() > kMost || rows_.front().time < event.time - kSpan) rows_.pop_front();
}

std::string RecentSteps::text() const {
  std::string text;
  for (const Row& row : rows_) text += row.line + '\n';
  return text;
}

Result<std::vector<Event>> read_recent_steps(std::string_view text) {
  std::vector<Event> steps;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    LLMTRAIN_ASSIGN(event, event_from_json(std::string(text.substr(0, end))));
    if (!std::holds_alternative<StepReport>(event.body))
      return Error{
          ErrorCode::kCorrupt, "a line of recent steps is none: " + std::string(text.substr(0, 80)), {}};
    steps.push_back(std::move(event));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return steps;
}

}  // namespace llmtrain
