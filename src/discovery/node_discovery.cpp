#include "llmtrain/discovery/node_discovery.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

#include "llmtrain/discovery/host_address.hpp"

#include "placement_source.hpp"

namespace llmtrain {
namespace {

// In the order in which they are believed; the job's own section comes last and is not among them.
struct Sources {
  PlacementSource flags, torchrun, slurm, ranks;
  std::array<const PlacementSource*, 4> all() const { return {&flags, &torchrun, &slurm, &ranks}; }
};

Result<Sources> read_sources(const LaunchFlags& flags, const Environment& environment) {
  Sources sources;
  LLMTRAIN_ASSIGN(by_flags, stated_by_flags(flags));
  LLMTRAIN_ASSIGN(by_torchrun, stated_by_torchrun(environment));
  LLMTRAIN_ASSIGN(by_slurm, stated_by_slurm(environment));
  LLMTRAIN_ASSIGN(by_ranks, stated_by_ranks(environment));
  sources = {std::move(by_flags), std::move(by_torchrun), std::move(by_slurm), std::move(by_ranks)};
  return sources;
}

template <class T>
MaybeStated<T> first(const Sources& sources, MaybeStated<T> PlacementSource::*field) {
  for (const PlacementSource* source : sources.all())
    if (source->*field) return source->*field;
  return std::nullopt;
}

template <class T>
std::optional<T> value_of(const MaybeStated<T>& stated) {
  if (!stated) return std::nullopt;
  return stated->value;
}

// Flags and PET_* are wishes of a person; the others count what has been started.
bool is_counted(const Sources& sources) {
  return !sources.flags.nodes && !sources.torchrun.nodes;
}

std::string text_of(const NodeRange& range) {
  return range.min == range.max ? std::to_string(range.min) : fmt::format("{}:{}", range.min, range.max);
}

bool holds(const NodeRange& range, int count) {
  return range.min <= count && count <= range.max;
}

Stated<NodeRange> decide_nodes(const Sources& sources, const PlacementSource& job) {
  const auto found = first(sources, &PlacementSource::nodes);
  if (!found) return *job.nodes;
  const NodeRange& asked = job.nodes->value;
  // The job tells how few are enough; more than were started will not come.
  if (is_counted(sources) && holds(asked, found->value.max))
    return {{asked.min, found->value.max}, found->origin};
  return *found;
}

Status check_nodes(const Sources& sources, const Stated<NodeRange>& nodes, const NodePlacement& placement) {
  const auto refuse = [](std::string message, std::string hint) {
    return Error{ErrorCode::kUsage, std::move(message), std::move(hint)};
  };
  const std::string stated = fmt::format("{} = {}", nodes.origin, text_of(nodes.value));
  if (const auto& step = sources.slurm.nodes; step && step->value.max > nodes.value.max)
    return refuse(fmt::format("{}, but {} = {}: srun started more agents than the job has nodes",
                              stated,
                              step->origin,
                              step->value.max),
                  fmt::format("start them with srun --nodes={}, or give {} places for spares as MIN:MAX",
                              nodes.value.max,
                              nodes.origin));
  if (placement.node_rank && *placement.node_rank >= nodes.value.max)
    return refuse(fmt::format("{} = {}, but {}; nodes are numbered from 0",
                              first(sources, &PlacementSource::node_rank)->origin,
                              *placement.node_rank,
                              stated),
                  "");
  if (nodes.value.max == 1 || placement.node_rank || !placement.endpoint.empty()) return ok_status();
  if (!sources.slurm.shell_only.empty())
    return refuse(
        fmt::format(
            "{}, but {}, so nothing starts the agents of the other nodes", stated, sources.slurm.shell_only),
        "start them with srun --ntasks-per-node=1 llmtrain launch ..., or give --nnodes 1");
  return refuse(fmt::format("{}, but nothing tells which of them this is and where they meet", stated),
                "give --node-rank and --rdzv-endpoint HOST:PORT on each node, or start with srun");
}

std::string_view first_label(std::string_view name) {
  return name.substr(0, name.find('.'));
}

std::optional<int> position(const std::vector<std::string>& names, const std::string& host) {
  auto found = std::find(names.begin(), names.end(), host);
  if (found == names.end())
    found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return first_label(name) == first_label(host);
    });
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

// A list for the whole cluster is cut down to the hosts of this job.
Status order_nodes(const LaunchFlags& flags, const Sources& sources, NodePlacement& placement) {
  if (flags.node_order.empty()) return ok_status();
  if (placement.expected_hosts.empty()) {
    placement.topology_order = flags.node_order;
    placement.expected_hosts = flags.node_order;
  } else {
    std::set<std::string> missing(placement.expected_hosts.begin(), placement.expected_hosts.end());
    for (const std::string& name : flags.node_order)
      if (missing.erase(name) > 0) placement.topology_order.push_back(name);
    if (!missing.empty())
      return Error{
          ErrorCode::kUsage,
          fmt::format("--node-order does not name {}, which is a node of this job", *missing.begin()),
          "allowed: every host of the job, one a line, or Slurm's topology.conf"};
    placement.expected_hosts = placement.topology_order;
  }
  if (placement.endpoint_derived) {
    LLMTRAIN_ASSIGN(endpoint, parse_endpoint(placement.endpoint, 0, "the endpoint"));
    endpoint.host = placement.topology_order.front();
    placement.endpoint = to_string(endpoint);
  }
  // A number given by a person or an operator stays; one that Slurm counted is replaced.
  if (sources.flags.node_rank || sources.torchrun.node_rank) return ok_status();
  placement.node_rank.reset();
  return ok_status();
}

Status number_by_order(NodePlacement& placement) {
  if (placement.topology_order.empty() || placement.node_rank || placement.host.empty()) return ok_status();
  placement.node_rank = position(placement.topology_order, placement.host);
  if (!placement.node_rank)
    return Error{ErrorCode::kUsage,
                 fmt::format("--node-order does not name this host, {}", placement.host),
                 "allowed: every host of the job, one a line, or Slurm's topology.conf"};
  if (*placement.node_rank >= placement.max_nodes)
    return Error{ErrorCode::kUsage,
                 fmt::format("--node-order names this host, {}, as number {}, but {} = {}",
                             placement.host,
                             *placement.node_rank,
                             placement.nodes_origin,
                             placement.max_nodes),
                 ""};
  placement.founder = *placement.node_rank == 0;
  return ok_status();
}

// The allocation ends when it ends, whatever a person hopes for.
std::optional<double> earliest_end(const Sources& sources, const PlacementSource& job) {
  std::optional<double> end;
  for (const PlacementSource* source : {&sources.flags, &sources.slurm, &job})
    if (source->time_limit_end && (!end || source->time_limit_end->value < *end))
      end = source->time_limit_end->value;
  return end;
}

void fill_from(const Sources& sources, const PlacementSource& job, NodePlacement& placement) {
  const auto endpoint = first(sources, &PlacementSource::endpoint);
  if (endpoint) placement.endpoint = endpoint->value;
  const bool given = sources.flags.endpoint || sources.torchrun.endpoint;
  placement.endpoint_derived = endpoint && !given && sources.slurm.endpoint;
  if (!endpoint && job.endpoint) placement.endpoint = job.endpoint->value;
  const auto id = first(sources, &PlacementSource::rdzv_id);
  placement.rdzv_id = id ? id->value : job.rdzv_id ? job.rdzv_id->value : "";
  placement.node_rank = value_of(first(sources, &PlacementSource::node_rank));
  placement.procs_per_node = value_of(first(sources, &PlacementSource::procs_per_node));
  placement.max_restarts = value_of(first(sources, &PlacementSource::max_restarts));
  placement.log_dir = value_of(first(sources, &PlacementSource::log_dir));
  placement.tee = value_of(first(sources, &PlacementSource::tee));
  placement.time_limit_end = earliest_end(sources, job);
  placement.host = sources.slurm.host;
  placement.expected_hosts = sources.slurm.hosts;
  if (!sources.slurm.job_name.empty()) placement.job_name = sources.slurm.job_name;
}

}  // namespace

Result<WorldHint> discover_world(const LaunchFlags& flags, const Environment& environment) {
  LLMTRAIN_ASSIGN(sources, read_sources(flags, environment));
  WorldHint hint;
  if (const auto nodes = first(sources, &PlacementSource::nodes)) {
    hint.nodes = text_of(nodes->value);
    hint.nodes_origin = nodes->origin;
    hint.counted = is_counted(sources);
  }
  hint.procs_per_node = value_of(first(sources, &PlacementSource::procs_per_node));
  return hint;
}

bool agrees_with(const WorldHint& hint, const LaunchSpec& launch) {
  if (!hint.nodes) return true;
  const auto job = stated_by_job(launch, 0);
  const auto found = node_range(*hint.nodes, hint.nodes_origin);
  if (!job || !job->nodes || !found) return false;
  return job->nodes->value == *found || (hint.counted && holds(job->nodes->value, found->max));
}

Result<NodePlacement> discover_node(const LaunchFlags& flags,
                                    const Environment& environment,
                                    const LaunchSpec& launch) {
  LLMTRAIN_ASSIGN(sources, read_sources(flags, environment));
  LLMTRAIN_ASSIGN(job, stated_by_job(launch, flags.now));
  NodePlacement placement;
  const Stated<NodeRange> nodes = decide_nodes(sources, job);
  placement.min_nodes = nodes.value.min;
  placement.max_nodes = nodes.value.max;
  placement.nodes_origin = nodes.origin;
  fill_from(sources, job, placement);
  placement.token_file = flags.rdzv_token_file;
  placement.token = variable(environment, "LLMTRAIN_TOKEN");
  LLMTRAIN_TRY(check_nodes(sources, nodes, placement));
  if (placement.max_nodes == 1) {  // whatever was said of others, there are none
    placement.endpoint.clear();
    placement.endpoint_derived = false;
    placement.expected_hosts.clear();
    placement.founder = true;
    return placement;
  }
  placement.founder = placement.node_rank == 0;
  LLMTRAIN_TRY(order_nodes(flags, sources, placement));
  LLMTRAIN_TRY(number_by_order(placement));
  return placement;
}

Status settle_on_this_host(NodePlacement& placement) {
  if (placement.host.empty()) placement.host = host_name();
  if (placement.max_nodes == 1) return ok_status();
  LLMTRAIN_TRY(number_by_order(placement));
  if (!placement.endpoint.empty()) {
    LLMTRAIN_ASSIGN(endpoint, parse_endpoint(placement.endpoint, 0, "the endpoint"));
    auto address = address_towards(endpoint);
    // Names of a scheduler need not be names of the network; the run directory tells the way then.
    const bool useless = !address || (is_loopback(*address) && !is_loopback(endpoint.host));
    if (useless && placement.endpoint_derived) {
      placement.endpoint.clear();
    } else if (!address) {
      return std::move(address).error();
    } else if (useless) {
      return Error{
          ErrorCode::kPreflight,
          fmt::format("the rendezvous endpoint {} is {} on this host, which other hosts cannot reach",
                      placement.endpoint,
                      *address),
          "correct /etc/hosts or give an address of the network; 127.0.0.1 when all nodes are this host"};
    } else {
      placement.address = std::move(address).value();
      if (!placement.node_rank) {
        LLMTRAIN_ASSIGN(here, is_this_host(endpoint));
        placement.founder = here;
      }
    }
  }
  if (placement.endpoint.empty()) placement.address = own_address();
  return ok_status();
}

}  // namespace llmtrain
