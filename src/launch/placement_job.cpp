#include "llmtrain/launch/endpoint.hpp"

#include "placement_source.hpp"

// What the job's own launch section says; the last word before "one node".
namespace llmtrain {

Result<PlacementSource> stated_by_job(const LaunchSpec& launch, double /*now*/) {
  PlacementSource source;
  source.nodes = Stated<NodeRange>{{launch.nodes, launch.nodes}, "launch.nodes"};
  return source;
}

}  // namespace llmtrain
