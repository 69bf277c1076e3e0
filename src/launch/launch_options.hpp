#pragma once

#include "llmtrain/launch/coordinator.hpp"
#include "llmtrain/launch/launch_job.hpp"
#include "llmtrain/launch/node_hands.hpp"
#include "llmtrain/launch/orphan_guard.hpp"

// What a launch on one node and one on several have in common: refusals, and what agents are told.
namespace llmtrain {

void open_standard_streams();

// `probe` names the small file that is written to see whether that is possible.
Status check_usable(FileSystem& files,
                    const RunDir& run,
                    const LaunchRequest& request,
                    const std::string& probe);
// What a checkpoint and the job that goes on from it must agree on, or the samples of a step would change.
Status check_invariants(FileSystem& files, const ResumePoint& point, const JobSpec& spec);
Status check_has_checkpoint(const LaunchRequest& request, const RunDir& run, const ResumePoint& point);
// What to say of a run that has nothing left to do; absent: it has.
std::optional<std::string> finished_text(const LaunchRequest& request,
                                         const RunDir& run,
                                         const ResumePoint& point);

std::vector<int> stop_signals(const LaunchRequest& request);
Milliseconds join_timeout(const LaunchRequest& request);
HandsOptions hands_options(const LaunchRequest& request, const RunDir& run, const OrphanGuard& guard);
CoordinatorOptions coordinator_options(const LaunchRequest& request,
                                       const RunDir& run,
                                       FileSystem& files,
                                       int incarnation,
                                       const ResumePoint& point);

}  // namespace llmtrain
