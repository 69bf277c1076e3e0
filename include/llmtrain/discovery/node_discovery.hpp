#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"

// Which node of how many this agent is, and where the others are met.
//
// Each field is taken from the first that states it: flags, PET_* (torchrun's variables, which operators
// set), the step of Slurm that this process is a task of, RANK and MASTER_ADDR or MPI's variables, the job's
// launch section, and one node when nobody says anything. A pure function of its arguments: it reads no
// environment and asks no system. `settle_on_this_host` afterwards asks the system what only it knows.
//
// A step's variables count in a task of srun only: in a batch or interactive shell they describe an
// allocation, in which nobody else has started an agent. Numbers that contradict each other are refused, both
// named.
namespace llmtrain {

using Environment = std::map<std::string, std::string>;

// The flags of `launch` and `resume`, as given. `now` is the time of the start in Unix seconds.
struct LaunchFlags {
  std::optional<std::string> nnodes;  // "N" or "MIN:MAX"
  std::optional<int> node_rank;
  std::optional<int> procs_per_node;
  std::optional<std::string> rdzv_endpoint;
  std::optional<std::string> rdzv_id;
  std::optional<std::string> rdzv_token_file;
  std::optional<int> max_restarts;
  std::optional<std::string> log_dir;
  std::optional<std::string> tee;
  std::optional<std::string> time_limit;  // "90s", "2h", "1-12:00:00"
  std::vector<std::string> node_order;    // the names in --node-order FILE
  double now = 0;
};

struct NodePlacement {
  int min_nodes = 1;
  int max_nodes = 1;
  std::optional<int> node_rank;             // absent: the leader gives a number
  std::optional<int> procs_per_node;        // of flags and environment; absent: as the job says
  std::string endpoint;                     // host:port; empty: leader.json of the run directory tells
  std::string rdzv_id;                      // nodes of the same id meet; empty: the run's name
  std::string host;                         // this node's name: SLURMD_NODENAME, or the kernel's
  std::string address;                      // of this host, as the others reach it; "" on one node
  bool founder = false;                     // may begin the job: node 0, or the endpoint is this host
  std::vector<std::string> expected_hosts;  // names of all nodes; may be empty
  std::optional<std::string> token_file;
  std::optional<std::string> token;
  std::vector<std::string> topology_order;  // names in the order of the fabric; empty: none was given
  std::optional<double> time_limit_end;     // Unix seconds
  std::optional<int> max_restarts;
  std::optional<std::string> log_dir;
  std::optional<std::string> tee;  // 0 to 3, or a map such as 0:3,1:2
  bool endpoint_derived = false;   // nobody gave the endpoint: it was made up from the list of hosts
  std::string nodes_origin;        // who decided the number of nodes: "--nnodes", "SLURM_STEP_NUM_NODES", ...
  std::optional<std::string> job_name;  // what the scheduler calls the job: "Slurm job 1234"
};

// What flags and environment say of the world before the job is read, since its layout depends on it.
struct WorldHint {
  std::optional<std::string> nodes;  // as launch.nodes takes it: "2", "2:4"
  std::string nodes_origin;
  bool counted = false;  // a scheduler counted them; otherwise a person asked for them
  std::optional<int> procs_per_node;
};

Result<WorldHint> discover_world(const LaunchFlags& flags, const Environment& environment);
// Whether the job's own launch.nodes may stay as it is: a counted number within its range, or the same
// number.
bool agrees_with(const WorldHint& hint, const LaunchSpec& launch);

Result<NodePlacement> discover_node(const LaunchFlags& flags,
                                    const Environment& environment,
                                    const LaunchSpec& launch);

// Name and address of this host, and whether the endpoint is here. Nothing is asked for one node.
Status settle_on_this_host(NodePlacement& placement);

}  // namespace llmtrain
