#include "llmtrain/sizing/pipeline_traffic.hpp"

#include "llmtrain/schedule/flow.hpp"

namespace llmtrain {

PipelineTraffic pipeline_traffic(const Schedule& schedule, int stage, const PipelinePass& pass) {
  const std::int64_t message = pass.tokens * pass.width * static_cast<std::int64_t>(bytes_of(pass.compute));
  PipelineTraffic traffic;
  const auto add = [](Traffic& to, std::int64_t calls, std::int64_t bytes) {
    to.calls += calls;
    to.bytes += calls * bytes;
  };
  for (const auto& [link, messages] : link_traffic(schedule)) {
    const bool forward = link.payload == Payload::kActivation;
    const auto calls = static_cast<std::int64_t>(messages.sent.size());
    if (link.from == stage) add(forward ? traffic.sent_activations : traffic.sent_gradients, calls, message);
    if (link.to == stage) add(forward ? traffic.received_activations : traffic.received_gradients, calls, 0);
  }
  return traffic;
}

Traffic tied_traffic(const std::vector<FlatSegment>& layout, DType compute) {
  if (layout.empty() || layout.front().slots.empty()) return {};
  return {.calls = 1,
          .bytes = layout.front().own.size() * static_cast<std::int64_t>(bytes_of(main_type(compute)))};
}

bool is_tied_over_stages(const ModelSpec& model, const StageMap& map) {
  return model.tie_embeddings && map.site(0).stage != map.site(map.num_virtual_stages() - 1).stage;
}

}  // namespace llmtrain
