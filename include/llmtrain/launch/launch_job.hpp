#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/discovery/node_discovery.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/monitor/events.hpp"

// `launch` and `resume` behind their command lines: the rules of the run directory, then the agent.
namespace llmtrain {

struct LaunchRequest {
  LoadedJob job;
  bool needs_checkpoint = false;  // `resume`: without a usable one there is nothing to do
  std::string engine_path;
  std::string executable = "/proc/self/exe";
  std::vector<std::string> environment;  // "NAME=value" of this process; launch.env is added to it
  // A worker may stand still for twice resilience.collective_timeout_s, and never for less than this.
  std::chrono::milliseconds shortest_stall{60'000};
  NodePlacement placement;  // this node among how many
  // Sentences for the console of a node that does not lead; the leader's events go to its sinks.
  std::function<void(const std::string&)> say = [](const std::string&) {};
};

struct LaunchOutcome {
  ExitCode code = ExitCode::kDone;
  std::string message;  // for the user when no worker was started; else empty
};

// Makes the sinks of the run once the run directory is owned.
using MakeSink = std::function<Result<std::unique_ptr<EventSink>>(const RunDir& run)>;

// Refusals come before anything in the directory is changed, except that it and its `control/` are made.
Result<LaunchOutcome> launch_job(const LaunchRequest& request, FileSystem& files, const MakeSink& make_sink);

}  // namespace llmtrain
