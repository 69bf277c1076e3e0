#pragma once

#include <string>

#include "llmtrain/discovery/node_discovery.hpp"
#include "llmtrain/job/load_job.hpp"

#include "job_arguments.hpp"

// The flags of `launch` and `resume` that place a node among others, and how they reach the job.
namespace llmtrain::cli {

struct PlacementArguments {
  LaunchFlags flags;
  std::string node_order;  // the path
};

void add_placement_options(CLI::App& command, PlacementArguments& arguments, JobArguments& job);

// Reads the file of --node-order and the time; what is given on the command line is in `flags` already.
Result<LaunchFlags> launch_flags(const PlacementArguments& arguments, const JobArguments& job);

// How many nodes and processes there are is settled before the layout is resolved: `load` is called with a
// source in which launch.nodes, procs_per_node and resilience.max_restarts say what flags and environment
// say.
template <class Load>
Result<LoadedJob> load_placed(JobSource source, const LaunchFlags& flags, Load load) {
  LLMTRAIN_ASSIGN(world, discover_world(flags, source.env));
  if (world.procs_per_node) source.procs_per_node = world.procs_per_node;
  if (flags.max_restarts)
    source.overrides.push_back("resilience.max_restarts=" + std::to_string(*flags.max_restarts));
  auto job = load(source);
  if (!world.nodes || (job && agrees_with(world, job->spec.launch))) return job;
  source.overrides.push_back("launch.nodes=" + *world.nodes);
  auto placed = load(source);
  if (!placed)
    return Error{placed.error().code,
                 placed.error().message,
                 "launch.nodes = " + *world.nodes + " is what " + world.nodes_origin + " says"};
  return placed;
}

// The place of this node; the system is asked for its name and address.
Result<NodePlacement> place_node(const LaunchFlags& flags, const JobSource& source, const JobSpec& spec);

}  // namespace llmtrain::cli
