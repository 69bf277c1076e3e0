#include "llmtrain/monitor/jsonl_sink.hpp"

namespace llmtrain {

Result<std::unique_ptr<JsonlSink>> JsonlSink::open(const std::string& run_dir) {
  LLMTRAIN_ASSIGN(metrics, AppendFile::open(run_dir + "/metrics.jsonl"));
  LLMTRAIN_ASSIGN(events, AppendFile::open(run_dir + "/events.jsonl"));
  return std::unique_ptr<JsonlSink>(new JsonlSink(std::move(metrics), std::move(events)));
}

void JsonlSink::on(const Event& event) {
  if (const auto* note = std::get_if<Note>(&event.body); note != nullptr && note->output) return;
  const auto* step = std::get_if<StepReport>(&event.body);
  const Status written = step ? metrics_.append(to_metrics_line(*step, event.time, event.incarnation))
                              : events_.append(to_json_line(event));
  if (written) return;
  ++lost_lines_;
  if (!first_failure_) first_failure_ = written.error();
}

}  // namespace llmtrain
