#include "llmtrain/launch/endpoint.hpp"

#include "placement_source.hpp"

// What the job's own launch section says; the last word before "one node".
namespace llmtrain {
namespace {

constexpr int kDefaultPort = 29'400;

}  // namespace

Result<PlacementSource> stated_by_job(const LaunchSpec& launch, double now) {
  PlacementSource source;
  source.nodes = Stated<NodeRange>{{launch.nodes.min, launch.nodes.max}, "launch.nodes"};
  if (!launch.rdzv_endpoint.empty()) {
    LLMTRAIN_ASSIGN(endpoint, parse_endpoint(launch.rdzv_endpoint, kDefaultPort, "launch.rdzv_endpoint"));
    source.endpoint = Stated<std::string>{endpoint.text(), "launch.rdzv_endpoint"};
  }
  if (!launch.rdzv_id.empty()) source.rdzv_id = Stated<std::string>{launch.rdzv_id, "launch.rdzv_id"};
  if (launch.time_limit)
    source.time_limit_end = Stated<double>{now + *launch.time_limit, "launch.time_limit"};
  return source;
}

}  // namespace llmtrain
