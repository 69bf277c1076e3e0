#include <fmt/format.h>

#include "llmtrain/discovery/host_address.hpp"

#include "placement_source.hpp"

// Two sources that say the same in two ways: our flags, which are torchrun's, and the variables that stand
// for them (PET_<FLAG>), which operators such as Kubeflow's trainer set.
namespace llmtrain {
namespace {

constexpr int kTorchrunPort = 29'400;
constexpr int kMasterPort = 29'500;

template <class T>
MaybeStated<T> stated(const std::optional<T>& value, const char* origin) {
  if (!value) return std::nullopt;
  return Stated<T>{*value, origin};
}

Result<MaybeStated<std::string>> endpoint_of(const std::optional<std::string>& text,
                                             int default_port,
                                             const std::string& origin) {
  if (!text) return MaybeStated<std::string>();
  LLMTRAIN_ASSIGN(endpoint, parse_endpoint(*text, default_port, origin));
  return MaybeStated<std::string>(Stated<std::string>{to_string(endpoint), origin});
}

Result<MaybeStated<NodeRange>> nodes_of(const std::optional<std::string>& text, const std::string& origin) {
  if (!text) return MaybeStated<NodeRange>();
  LLMTRAIN_ASSIGN(range, node_range(*text, origin));
  return MaybeStated<NodeRange>(Stated<NodeRange>{range, origin});
}

MaybeStated<std::string> text_of(const Environment& environment, const char* name) {
  return stated(variable(environment, name), name);
}

}  // namespace

Result<PlacementSource> stated_by_flags(const LaunchFlags& flags) {
  PlacementSource source;
  LLMTRAIN_ASSIGN(nodes, nodes_of(flags.nnodes, "--nnodes"));
  LLMTRAIN_ASSIGN(endpoint, endpoint_of(flags.rdzv_endpoint, kTorchrunPort, "--rdzv-endpoint"));
  source.nodes = std::move(nodes);
  source.endpoint = std::move(endpoint);
  source.node_rank = stated(flags.node_rank, "--node-rank");
  source.procs_per_node = stated(flags.procs_per_node, "--nproc-per-node");
  source.rdzv_id = stated(flags.rdzv_id, "--rdzv-id");
  source.max_restarts = stated(flags.max_restarts, "--max-restarts");
  source.log_dir = stated(flags.log_dir, "--log-dir");
  if (flags.tee) {
    LLMTRAIN_ASSIGN(tee, tee_choice(*flags.tee, "--tee"));
    source.tee = Stated<std::string>{std::move(tee), "--tee"};
  }
  if (flags.time_limit) {
    LLMTRAIN_ASSIGN(seconds, time_span(*flags.time_limit, "--time-limit"));
    source.time_limit_end = Stated<double>{flags.now + seconds, "--time-limit"};
  }
  return source;
}

Result<PlacementSource> stated_by_torchrun(const Environment& environment) {
  PlacementSource source;
  LLMTRAIN_ASSIGN(nodes, nodes_of(variable(environment, "PET_NNODES"), "PET_NNODES"));
  LLMTRAIN_ASSIGN(node_rank, number_of(environment, "PET_NODE_RANK", 0, kMaxNodes - 1));
  LLMTRAIN_ASSIGN(max_restarts, number_of(environment, "PET_MAX_RESTARTS", 0, 1'000'000));
  source.nodes = std::move(nodes);
  source.node_rank = std::move(node_rank);
  source.max_restarts = std::move(max_restarts);
  // `auto` and the like: the job decides.
  const auto procs = variable(environment, "PET_NPROC_PER_NODE");
  if (procs && *procs != "auto" && *procs != "gpu" && *procs != "cpu") {
    LLMTRAIN_ASSIGN(number, number_of(environment, "PET_NPROC_PER_NODE", 1, kMaxNodes));
    source.procs_per_node = std::move(number);
  }
  LLMTRAIN_ASSIGN(
      endpoint, endpoint_of(variable(environment, "PET_RDZV_ENDPOINT"), kTorchrunPort, "PET_RDZV_ENDPOINT"));
  source.endpoint = std::move(endpoint);
  if (!source.endpoint) {
    LLMTRAIN_ASSIGN(port, number_of(environment, "PET_MASTER_PORT", 1, 65'535));
    LLMTRAIN_ASSIGN(
        master,
        endpoint_of(
            variable(environment, "PET_MASTER_ADDR"), port ? port->value : kMasterPort, "PET_MASTER_ADDR"));
    source.endpoint = std::move(master);
  }
  source.rdzv_id = text_of(environment, "PET_RDZV_ID");
  source.log_dir = text_of(environment, "PET_LOG_DIR");
  if (const auto text = variable(environment, "PET_TEE")) {
    LLMTRAIN_ASSIGN(tee, tee_choice(*text, "PET_TEE"));
    source.tee = Stated<std::string>{std::move(tee), "PET_TEE"};
  }
  return source;
}

}  // namespace llmtrain
