#pragma once

#include "llmtrain/launch/launch_job.hpp"
#include "llmtrain/launch/orphan_guard.hpp"

// A launch on one of several nodes that share the run directory, which is there already.
namespace llmtrain {

Result<LaunchOutcome> launch_on_nodes(const LaunchRequest& request,
                                      const RunDir& run,
                                      const OrphanGuard& guard,
                                      FileSystem& files,
                                      const MakeSink& make_sink);

}  // namespace llmtrain
