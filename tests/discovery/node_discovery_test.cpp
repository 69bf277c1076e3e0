#include "llmtrain/discovery/node_discovery.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

Environment slurm_step() {
  return {{"SLURM_JOB_ID", "1234"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_NODES", "3"},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_NODEID", "1"},
          {"SLURM_PROCID", "1"},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NODELIST", "n[1-3]"},
          {"SLURMD_NODENAME", "n2"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
          {"SLURM_JOB_END_TIME", "5000"}};
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

NodePlacement found(const LaunchFlags& flags, const Environment& environment, const LaunchSpec& launch = {}) {
  auto placement = discover_node(flags, environment, launch);
  if (!placement) FAIL(to_string(placement.error()));
  return std::move(placement).value();
}

// The refusal, which must name both of two things.
void check_refused(const LaunchFlags& flags,
                   const Environment& environment,
                   const std::string& first,
                   const std::string& second,
                   const LaunchSpec& launch = {}) {
  const auto placement = discover_node(flags, environment, launch);
  INFO(first << " and " << second);
  REQUIRE_FALSE(placement);
  INFO(to_string(placement.error()));
  CHECK(placement.error().code == ErrorCode::kUsage);
  CHECK(placement.error().message.find(first) != std::string::npos);
  CHECK(placement.error().message.find(second) != std::string::npos);
}

LaunchFlags two_nodes(int rank) {
  LaunchFlags flags;
  flags.nnodes = "2";
  flags.node_rank = rank;
  flags.rdzv_endpoint = "10.0.0.1:2000";
  return flags;
}

}  // namespace

TEST_CASE("discovery: nothing said is one node", "[discovery]") {
  const NodePlacement one = found({}, {});
  CHECK(one.min_nodes == 1);
  CHECK(one.max_nodes == 1);
  CHECK(one.founder);
  CHECK(one.endpoint.empty());
  CHECK(one.rdzv_id.empty());
  CHECK_FALSE(one.time_limit_end);
  CHECK_FALSE(discover_world({}, {}).value().nodes);
}

TEST_CASE("discovery: flags mean what torchrun's mean", "[discovery]") {
  LaunchFlags flags = two_nodes(1);
  flags.rdzv_id = "job7";
  flags.procs_per_node = 4;
  flags.max_restarts = 3;
  flags.log_dir = "/logs";
  flags.tee = "0:3,1:2";
  flags.time_limit = "2h";
  flags.now = 1000;
  const NodePlacement node = found(flags, {{"LLMTRAIN_TOKEN", "secret"}});
  CHECK(node.min_nodes == 2);
  CHECK(node.max_nodes == 2);
  CHECK(node.node_rank == 1);
  CHECK_FALSE(node.founder);
  CHECK(node.endpoint == "10.0.0.1:2000");
  CHECK(node.rdzv_id == "job7");
  CHECK(node.procs_per_node == 4);
  CHECK(node.max_restarts == 3);
  CHECK(node.log_dir == "/logs");
  CHECK(node.tee == "0:3,1:2");
  CHECK(node.time_limit_end == 8200);
  CHECK(node.token == "secret");
  CHECK(found(two_nodes(0), {}).founder);

  flags.nnodes = "2:4";
  const NodePlacement elastic = found(flags, {});
  CHECK(elastic.min_nodes == 2);
  CHECK(elastic.max_nodes == 4);
  flags.rdzv_endpoint = "n1";
  CHECK(found(flags, {}).endpoint == "n1:29400");
}

TEST_CASE("discovery: numbers and texts that mean nothing are refused by name", "[discovery]") {
  for (const char* nodes : {"0", "", "-1", "a", "2:1", "1:2:3", "1:", "99999999", "2.0"}) {
    LaunchFlags flags;
    flags.nnodes = nodes;
    check_refused(flags, {}, "--nnodes", nodes);
  }
  check_refused({}, {{"PET_NNODES", "many"}}, "PET_NNODES", "many");
  check_refused({}, with(slurm_step(), {{"SLURM_NODEID", "x"}}), "SLURM_NODEID", "x");
  check_refused({}, with(slurm_step(), {{"SLURM_STEP_NODELIST", "n[1"}}), "SLURM_STEP_NODELIST", "n[1");
  LaunchFlags flags = two_nodes(2);
  check_refused(flags, {}, "--node-rank = 2", "--nnodes = 2");
  flags = two_nodes(0);
  flags.tee = "4";
  check_refused(flags, {}, "--tee", "4");
  for (const char* limit : {"", "0", "2x", "1:2:3:4", "-5", "h"}) {
    flags = two_nodes(0);
    flags.time_limit = limit;
    check_refused(flags, {}, "--time-limit", limit);
  }
}

TEST_CASE("discovery: time limits in people's and in Slurm's notation", "[discovery]") {
  const auto end = [](const char* text) {
    LaunchFlags flags;
    flags.time_limit = text;
    return found(flags, {}).time_limit_end;
  };
  CHECK(end("90") == 90);
  CHECK(end("90s") == 90);
  CHECK(end("30m") == 1800);
  CHECK(end("1d") == 86'400);
  CHECK(end("10:30") == 630);
  CHECK(end("02:00:05") == 7205);
  CHECK(end("1-12:00:00") == 129'600);
  CHECK(end("2-6") == 194'400);
}

TEST_CASE("discovery: PET_ variables stand for the flags, and flags win", "[discovery]") {
  const Environment pet = {{"PET_NNODES", "2"},
                           {"PET_NPROC_PER_NODE", "auto"},
                           {"PET_NODE_RANK", "1"},
                           {"PET_MASTER_ADDR", "job-node-0-0.job"},
                           {"PET_MASTER_PORT", "29500"},
                           {"PET_MAX_RESTARTS", "5"}};
  const NodePlacement node = found({}, pet);
  CHECK(node.max_nodes == 2);
  CHECK(node.node_rank == 1);
  CHECK(node.endpoint == "job-node-0-0.job:29500");
  CHECK(node.nodes_origin == "PET_NNODES");
  CHECK_FALSE(node.procs_per_node);
  CHECK(node.max_restarts == 5);
  CHECK(found({}, with(pet, {{"PET_NPROC_PER_NODE", "8"}})).procs_per_node == 8);
  LaunchFlags flags;
  flags.node_rank = 0;
  CHECK(found(flags, pet).node_rank == 0);
  CHECK(found({}, with(with(slurm_step(), pet), {{"PET_NNODES", "3"}})).endpoint == "job-node-0-0.job:29500");
}

TEST_CASE("discovery: a step of Slurm", "[discovery]") {
  const NodePlacement node = found({}, slurm_step());
  CHECK(node.min_nodes == 3);
  CHECK(node.max_nodes == 3);
  CHECK(node.node_rank == 1);
  CHECK_FALSE(node.founder);
  CHECK(node.host == "n2");
  CHECK(node.endpoint == "n1:21234");
  CHECK(node.endpoint_derived);
  CHECK(node.rdzv_id == "1234");
  CHECK(node.expected_hosts == std::vector<std::string>{"n1", "n2", "n3"});
  CHECK(node.time_limit_end == 5000);
  CHECK(node.job_name == "Slurm job 1234");
  CHECK(found({}, with(slurm_step(), {{"SLURM_NODEID", "0"}})).founder);

  LaunchFlags sooner;
  sooner.time_limit = "60";
  CHECK(found(sooner, slurm_step()).time_limit_end == 60);
  LaunchFlags later;
  later.time_limit = "6000";
  CHECK(found(later, slurm_step()).time_limit_end == 5000);
  // Without a limit the end lies beyond all time.
  CHECK_FALSE(found({}, with(slurm_step(), {{"SLURM_JOB_END_TIME", "4294967295"}})).time_limit_end);
}

TEST_CASE("discovery: older variables of Slurm do too", "[discovery]") {
  const NodePlacement node = found({},
                                   {{"SLURM_JOBID", "9"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_NNODES", "2"},
                                    {"SLURM_NTASKS", "2"},
                                    {"SLURM_NODEID", "0"},
                                    {"SLURM_JOB_NODELIST", "gpu[1,2]"}});
  CHECK(node.max_nodes == 2);
  CHECK(node.endpoint == "gpu1:20009");
}

TEST_CASE("discovery: task counts that contradict each other are refused, both named (report L10)",
          "[discovery]") {
  const Environment bare = {{"SLURM_JOB_ID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NNODES", "1"}};
  check_refused({},
                with(bare, {{"SLURM_NTASKS", "1"}, {"SLURM_NTASKS_PER_NODE", "2"}}),
                "SLURM_NTASKS_PER_NODE = 2",
                "SLURM_NTASKS = 1");
  // The launcher starts the workers, so several tasks on a node would start them several times.
  check_refused({}, with(bare, {{"SLURM_NTASKS", "4"}}), "SLURM_NTASKS = 4", "SLURM_NNODES = 1");
  check_refused({}, with(bare, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID = 2", "SLURM_NNODES = 1");
  check_refused({},
                with(slurm_step(), {{"SLURM_STEP_NUM_TASKS", "6"}}),
                "SLURM_STEP_NUM_TASKS = 6",
                "SLURM_STEP_NUM_NODES = 3");
  check_refused({},
                with(slurm_step(), {{"SLURM_STEP_NUM_TASKS", "1"}}),
                "SLURM_STEP_NUM_TASKS = 1",
                "SLURM_STEP_NUM_NODES = 3");
  check_refused({},
                with(slurm_step(), {{"SLURM_STEP_TASKS_PER_NODE", "2,1,0"}}),
                "SLURM_STEP_TASKS_PER_NODE = 2",
                "SLURM_STEP_NUM_NODES = 3");
  check_refused({},
                with(slurm_step(), {{"SLURM_STEP_NODELIST", "n[1-2]"}}),
                "SLURM_STEP_NUM_NODES = 3",
                "SLURM_STEP_NODELIST");
  check_refused(
      {}, with(slurm_step(), {{"SLURM_NODEID", "3"}}), "SLURM_NODEID = 3", "SLURM_STEP_NUM_NODES = 3");
  // What the allocation was asked for does not matter where the step says what runs.
  CHECK(found({}, with(slurm_step(), {{"SLURM_NTASKS_PER_NODE", "4"}, {"SLURM_NTASKS", "12"}})).max_nodes ==
        3);
}

TEST_CASE("discovery: in a shell of an allocation nobody else has started an agent (report L10)",
          "[discovery]") {
  // As a batch script and as `salloc` see it: an allocation of two nodes, no step.
  const Environment batch = {{"SLURM_JOB_ID", "7"},
                             {"SLURM_NNODES", "2"},
                             {"SLURM_NTASKS", "2"},
                             {"SLURM_NODEID", "0"},
                             {"SLURM_JOB_NODELIST", "n[1-2]"},
                             {"SLURM_PROCID", "0"},
                             {"SLURM_LOCALID", "0"}};
  CHECK(found({}, batch).max_nodes == 1);
  LaunchSpec two;
  two.nodes = 2;
  check_refused({}, batch, "SLURM_STEP_ID is not set", "launch.nodes = 2", two);
  for (const char* step : {"4294967290", "4294967291"})
    check_refused({}, with(batch, {{"SLURM_STEP_ID", step}}), step, "launch.nodes = 2", two);
  check_refused({},
                with(batch, {{"SLURM_STEP_ID", "0"}, {"SLURM_PTY_PORT", "5"}}),
                "SLURM_PTY_PORT",
                "launch.nodes = 2",
                two);
  // Flags say what the variables cannot.
  CHECK(found(two_nodes(1), batch, two).node_rank == 1);
}

TEST_CASE("discovery: flags beside a step", "[discovery]") {
  LaunchFlags flags;
  flags.nnodes = "2";
  check_refused(flags, slurm_step(), "--nnodes = 2", "SLURM_STEP_NUM_NODES = 3");
  flags.nnodes = "2:3";
  const NodePlacement node = found(flags, slurm_step());
  CHECK(node.min_nodes == 2);
  CHECK(node.max_nodes == 3);
  CHECK(node.node_rank == 1);
}

TEST_CASE("discovery: RANK with MASTER_ADDR, and MPI", "[discovery]") {
  const NodePlacement master = found({}, {{"MASTER_ADDR", "n1"}, {"RANK", "1"}, {"WORLD_SIZE", "2"}});
  CHECK(master.endpoint == "n1:29500");
  CHECK(master.node_rank == 1);
  CHECK(master.max_nodes == 2);
  CHECK(found({}, {{"RANK", "5"}}).max_nodes == 1);  // a leftover
  CHECK(found({}, {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "5"}, {"RANK", "0"}, {"WORLD_SIZE", "2"}})
            .endpoint == "[::1]:5");

  const NodePlacement mpi = found({},
                                  {{"OMPI_COMM_WORLD_RANK", "0"},
                                   {"OMPI_COMM_WORLD_SIZE", "4"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                   {"PMIX_RANK", "0"}});
  CHECK(mpi.max_nodes == 4);
  CHECK(mpi.founder);
  check_refused(
      {},
      {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
      "OMPI_COMM_WORLD_LOCAL_SIZE = 2",
      "OMPI_COMM_WORLD_RANK");
  check_refused({},
                {{"MASTER_ADDR", "n1"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "3"}},
                "LOCAL_RANK = 3",
                "RANK");
  check_refused({}, {{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK = 2", "WORLD_SIZE = 2");
}

TEST_CASE("discovery: several nodes need a place and a meeting point", "[discovery]") {
  LaunchFlags flags;
  flags.nnodes = "2";
  check_refused(flags, {}, "--nnodes = 2", "which of them this is");
  flags.rdzv_endpoint = "n1:2000";
  const NodePlacement unnumbered = found(flags, {});
  CHECK_FALSE(unnumbered.node_rank);
  flags.rdzv_endpoint.reset();
  flags.node_rank = 1;  // the run directory tells where
  CHECK(found(flags, {}).endpoint.empty());
}

TEST_CASE("discovery: the job's launch section has the last word", "[discovery]") {
  LaunchSpec launch;
  launch.nodes = {2, 4};
  launch.rdzv_endpoint = "n1";
  launch.rdzv_id = "mine";
  launch.time_limit = 60;
  LaunchFlags flags;
  flags.now = 1000;
  const NodePlacement node = found(flags, {}, launch);
  CHECK(node.min_nodes == 2);
  CHECK(node.max_nodes == 4);
  CHECK(node.endpoint == "n1:29400");
  CHECK(node.rdzv_id == "mine");
  CHECK(node.time_limit_end == 1060);
  // A scheduler has started three: fewer than the job could use, more than it needs.
  const NodePlacement counted = found({}, slurm_step(), launch);
  CHECK(counted.min_nodes == 2);
  CHECK(counted.max_nodes == 3);
  CHECK(counted.endpoint == "n1:21234");
  CHECK(counted.rdzv_id == "1234");
  CHECK(agrees_with(discover_world({}, slurm_step()).value(), launch));
  launch.rdzv_endpoint = "n1:x";
  check_refused({}, {}, "launch.rdzv_endpoint", "n1:x", launch);
}

TEST_CASE("discovery: numbers by the fabric", "[discovery]") {
  LaunchFlags flags;
  flags.node_order = {"x1", "n3", "n1", "n2"};  // of the whole cluster
  const NodePlacement node = found(flags, slurm_step());
  CHECK(node.node_rank == 2);  // n2
  CHECK(node.endpoint == "n3:21234");
  CHECK(node.topology_order == std::vector<std::string>{"n3", "n1", "n2"});
  CHECK(found(flags, with(slurm_step(), {{"SLURMD_NODENAME", "n3"}})).founder);
  flags.node_order = {"n3", "n1"};
  check_refused(flags, slurm_step(), "--node-order", "n2");
  flags.node_rank = 0;
  flags.node_order = {"n3", "n1", "n2"};
  CHECK(found(flags, slurm_step()).node_rank == 0);
}

TEST_CASE("discovery: what the world is before the job is read", "[discovery]") {
  LaunchFlags flags;
  flags.nnodes = "2:4";
  flags.procs_per_node = 3;
  const auto asked = discover_world(flags, slurm_step());
  REQUIRE(asked);
  CHECK(asked->nodes == "2:4");
  CHECK_FALSE(asked->counted);
  CHECK(asked->procs_per_node == 3);
  const auto counted = discover_world({}, slurm_step());
  REQUIRE(counted);
  CHECK(counted->nodes == "3");
  CHECK(counted->counted);
  CHECK(counted->nodes_origin == "SLURM_STEP_NUM_NODES");
  LaunchSpec launch;
  launch.nodes = 3;
  CHECK(agrees_with(*counted, launch));
  launch.nodes = 2;
  CHECK_FALSE(agrees_with(*counted, launch));
}

TEST_CASE("discovery: this host's name and address", "[discovery]") {
  NodePlacement node = found(two_nodes(1), {});
  node.endpoint = "127.0.0.1:2000";
  REQUIRE(settle_on_this_host(node));
  CHECK_FALSE(node.host.empty());
  CHECK(node.address == "127.0.0.1");
  CHECK_FALSE(node.founder);

  LaunchFlags unnumbered;
  unnumbered.nnodes = "2";
  unnumbered.rdzv_endpoint = "127.0.0.1:2000";
  NodePlacement founder = found(unnumbered, {});
  REQUIRE(settle_on_this_host(founder));
  CHECK(founder.founder);

  NodePlacement lost = found(two_nodes(0), {});
  lost.endpoint = "no-such-host.invalid:2000";
  const Status unknown = settle_on_this_host(lost);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kPreflight);
  // A name that only the scheduler knows: the run directory tells the way.
  lost.endpoint_derived = true;
  REQUIRE(settle_on_this_host(lost));
  CHECK(lost.endpoint.empty());
  CHECK_FALSE(lost.address.empty());
}
