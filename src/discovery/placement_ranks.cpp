#include <fmt/format.h>

#include "llmtrain/discovery/host_address.hpp"

#include "placement_source.hpp"

// Other launchers' variables: MASTER_ADDR with RANK, and those of MPI. Each process they start is one agent,
// so a launcher that starts several processes on a node is refused: its ranks would each start workers of
// their own.
namespace llmtrain {
namespace {

constexpr int kMasterPort = 29'500;

struct Dialect {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

constexpr Dialect kDialects[] = {
    {"OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMIX_RANK", "PMIX_SIZE", "PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
};

Status one_process_a_node(const Dialect& dialect,
                          const MaybeStated<int>& local,
                          const MaybeStated<int>& locals) {
  const bool several = (locals && locals->value > 1) || (local && local->value > 0);
  if (!several) return ok_status();
  const auto& found = locals && locals->value > 1 ? *locals : *local;
  return Error{ErrorCode::kUsage,
               fmt::format("{} = {} beside {}: another launcher started several processes on this node, and "
                           "each would start workers of its own; allowed: one `llmtrain launch` on each node",
                           found.origin,
                           found.value,
                           dialect.rank),
               "start one process on each node, or unset these variables"};
}

}  // namespace

Result<PlacementSource> stated_by_ranks(const Environment& environment) {
  PlacementSource source;
  LLMTRAIN_ASSIGN(port, number_of(environment, "MASTER_PORT", 1, 65'535));
  if (const auto address = variable(environment, "MASTER_ADDR")) {
    LLMTRAIN_ASSIGN(endpoint, parse_endpoint(*address, port ? port->value : kMasterPort, "MASTER_ADDR"));
    source.endpoint = Stated<std::string>{to_string(endpoint), "MASTER_ADDR"};
  }
  for (const Dialect& dialect : kDialects) {
    LLMTRAIN_ASSIGN(rank, number_of(environment, dialect.rank, 0, kMaxNodes - 1));
    LLMTRAIN_ASSIGN(size, number_of(environment, dialect.size, 1, kMaxNodes));
    // A rank without a number of ranks or an address means nothing: RANK alone is a common leftover.
    if (!rank || (!size && !source.endpoint)) continue;
    LLMTRAIN_ASSIGN(local, number_of(environment, dialect.local_rank, 0, kMaxNodes));
    LLMTRAIN_ASSIGN(locals, number_of(environment, dialect.local_size, 1, kMaxNodes));
    LLMTRAIN_TRY(one_process_a_node(dialect, local, locals));
    if (size && rank->value >= size->value)
      return Error{ErrorCode::kUsage,
                   fmt::format("{} = {}, but {} = {}; ranks are numbered from 0",
                               rank->origin,
                               rank->value,
                               size->origin,
                               size->value),
                   ""};
    source.node_rank = std::move(rank);
    if (size) source.nodes = Stated<NodeRange>{{size->value, size->value}, size->origin};
    break;
  }
  return source;
}

}  // namespace llmtrain
