#include "launch_flags.hpp"

#include <chrono>

#include <CLI/CLI.hpp>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/discovery/hostlist.hpp"

namespace llmtrain::cli {
namespace {

void add_rendezvous_options(CLI::App& command, LaunchFlags& flags) {
  command
      .add_option(
          "--nnodes", flags.nnodes, "Nodes of the job: N, or MIN:MAX to begin with fewer and take spares")
      ->type_name("NODES");
  command.add_option("--node-rank", flags.node_rank, "Number of this node, from 0; default: the scheduler's")
      ->type_name("N")
      ->check(CLI::Range(0, 65'535));
  command
      .add_option("--rdzv-endpoint",
                  flags.rdzv_endpoint,
                  "Where the nodes meet: HOST or HOST:PORT of node 0; default port: 29400")
      ->type_name("ENDPOINT");
  command
      .add_option(
          "--rdzv-id", flags.rdzv_id, "Nodes of the same id meet; default: scheduler's job, or run.name")
      ->type_name("TEXT");
  command
      .add_option(
          "--rdzv-token-file",
          flags.rdzv_token_file,
          "File with the secret that nodes prove to each other; default: LLMTRAIN_TOKEN, or one is made in "
          "the run directory")
      ->type_name("FILE");
}

}  // namespace

void add_placement_options(CLI::App& command, PlacementArguments& arguments, JobArguments& job) {
  LaunchFlags& flags = arguments.flags;
  add_nproc_option(command, job);
  add_rendezvous_options(command, flags);
  command
      .add_option("--node-order",
                  arguments.node_order,
                  "Number nodes in the order of this file: host names, or Slurm's topology.conf")
      ->type_name("FILE");
  command
      .add_option(
          "--max-restarts", flags.max_restarts, "Restarts of the workers; wins over resilience.max_restarts")
      ->type_name("N")
      ->check(CLI::Range(0, 1'000'000));
  command
      .add_option(
          "--log-dir", flags.log_dir, "Put the workers' output here; default: logs/ of the run directory")
      ->type_name("DIR");
  command
      .add_option(
          "--tee",
          flags.tee,
          "Show the workers' output on the console too: 0 none, 1 stdout, 2 stderr, 3 both, or by local rank "
          "0:3,1:2")
      ->type_name("STREAMS");
  command
      .add_option(
          "--time-limit",
          flags.time_limit,
          "Save and stop early enough before this time is over: 90m, 2h, HH:MM:SS; default: the allocation's")
      ->type_name("TIME");
}

Result<LaunchFlags> launch_flags(const PlacementArguments& arguments, const JobArguments& job) {
  LaunchFlags flags = arguments.flags;
  flags.procs_per_node = job.procs_per_node;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  flags.now = now.count();
  if (!arguments.node_order.empty()) {
    const auto files = make_posix_filesystem();
    LLMTRAIN_ASSIGN(text, read_file(*files, arguments.node_order, kMaxHostlistBytes));
    LLMTRAIN_ASSIGN(order, parse_node_order(text, arguments.node_order));
    flags.node_order = std::move(order);
  }
  return flags;
}

Result<NodePlacement> place_node(const LaunchFlags& flags, const JobSource& source, const JobSpec& spec) {
  LLMTRAIN_ASSIGN(placement, discover_node(flags, source.env, spec.launch));
  if (placement.rdzv_id.empty()) placement.rdzv_id = spec.run.name;
  LLMTRAIN_TRY(settle_on_this_host(placement));
  return placement;
}

}  // namespace llmtrain::cli
