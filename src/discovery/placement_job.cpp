#include "llmtrain/discovery/host_address.hpp"

#include "placement_source.hpp"

// What the job's own launch section says; the last word before "one node".
namespace llmtrain {
Result<PlacementSource> stated_by_job(const LaunchSpec& launch, double now) {
  PlacementSource source;
  source.nodes = Stated<NodeRange>{{launch.nodes.min, launch.nodes.max}, "launch.nodes"};
  if (!launch.rdzv_endpoint.empty()) {
    LLMTRAIN_ASSIGN(endpoint,
                    parse_endpoint(launch.rdzv_endpoint, kDefaultControlPort, "launch.rdzv_endpoint"));
    source.endpoint = Stated<std::string>{to_string(endpoint), "launch.rdzv_endpoint"};
  }
  if (!launch.rdzv_id.empty()) source.rdzv_id = Stated<std::string>{launch.rdzv_id, "launch.rdzv_id"};
  if (launch.time_limit)
    source.time_limit_end = Stated<double>{now + *launch.time_limit, "launch.time_limit"};
  return source;
}

}  // namespace llmtrain
