#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "llmtrain/discovery/hostlist.hpp"

#include "placement_source.hpp"

// A step of Slurm: what srun tells each of its tasks. One task a node is an agent; anything else is a mistake
// that would start too many or too few of them.
namespace llmtrain {
namespace {

// Step numbers that Slurm gives to shells: the batch script, and `salloc` with an interactive step.
constexpr std::string_view kShellSteps[] = {"4294967290", "4294967291", "batch", "interactive"};

Result<MaybeStated<int>> first_number(const Environment& environment,
                                      const char* step,
                                      const char* job,
                                      int low) {
  LLMTRAIN_ASSIGN(of_step, number_of(environment, step, low, kMaxNodes));
  if (of_step) return of_step;
  return number_of(environment, job, low, kMaxNodes);
}

// "2(x3),1" is 2, 2, 2, 1: the largest of them.
Result<int> largest_count(std::string_view text, const std::string& origin) {
  int largest = 0;
  for (;;) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    LLMTRAIN_ASSIGN(count, whole_number(part.substr(0, part.find('(')), 0, kMaxNodes, origin));
    largest = std::max(largest, count);
    if (comma == std::string_view::npos) return largest;
    text.remove_prefix(comma + 1);
  }
}

Error contradiction(const std::string& first, int a, const std::string& second, int b, const char* meaning) {
  return {ErrorCode::kUsage,
          fmt::format("{} = {}, but {} = {}: {}", first, a, second, b, meaning),
          "start one task on each node: srun --ntasks-per-node=1 llmtrain launch ..."};
}

// The tasks of the step against its nodes.
Status one_task_a_node(const Environment& environment, const Stated<int>& nodes) {
  LLMTRAIN_ASSIGN(local, number_of(environment, "SLURM_LOCALID", 0, kMaxNodes));
  LLMTRAIN_ASSIGN(tasks, first_number(environment, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", 1));
  if (tasks && tasks->value > nodes.value)
    return contradiction(tasks->origin,
                         tasks->value,
                         nodes.origin,
                         nodes.value,
                         "several tasks on a node would each start all of the node's workers");
  if (tasks && tasks->value < nodes.value)
    return contradiction(tasks->origin,
                         tasks->value,
                         nodes.origin,
                         nodes.value,
                         "some nodes would get no task, and the others would wait for them");
  if (local && local->value > 0)
    return contradiction(local->origin,
                         local->value,
                         nodes.origin,
                         nodes.value,
                         "this is not the first task of its node, which starts all of the node's workers");
  // Counts of the step win over what the allocation was asked for; without them the two must agree.
  if (const auto spread = variable(environment, "SLURM_STEP_TASKS_PER_NODE")) {
    LLMTRAIN_ASSIGN(most, largest_count(*spread, "SLURM_STEP_TASKS_PER_NODE"));
    if (most > 1)
      return contradiction("SLURM_STEP_TASKS_PER_NODE",
                           most,
                           nodes.origin,
                           nodes.value,
                           "several tasks on a node would each start all of the node's workers");
    return ok_status();
  }
  LLMTRAIN_ASSIGN(asked, number_of(environment, "SLURM_NTASKS_PER_NODE", 1, kMaxNodes));
  if (asked && asked->value > 1)
    return tasks ? contradiction(
                       asked->origin, asked->value, tasks->origin, tasks->value, "they contradict each other")
                 : contradiction(asked->origin,
                                 asked->value,
                                 nodes.origin,
                                 nodes.value,
                                 "several tasks on a node would each start all of the node's workers");
  return ok_status();
}

// Outside the ports that systems give to clients (32768 and up), and another one for each job.
int port_of(std::string_view job) {
  std::uint64_t id = 0;
  std::from_chars(job.data(), job.data() + job.size(), id);
  return static_cast<int>(20'000 + id % 10'000);
}

Status add_hosts(PlacementSource& source, const Environment& environment, const std::string& job) {
  const char* name = "SLURM_STEP_NODELIST";
  auto text = variable(environment, name);
  if (!text) text = variable(environment, name = "SLURM_JOB_NODELIST");
  if (!text) text = variable(environment, name = "SLURM_NODELIST");
  if (!text) return ok_status();
  auto hosts = expand_hostlist(*text);
  if (!hosts)
    return Error{ErrorCode::kUsage, fmt::format("{}: {}", name, hosts.error().message), hosts.error().hint};
  if (source.nodes && static_cast<int>(hosts->size()) != source.nodes->value.max)
    return contradiction(source.nodes->origin,
                         source.nodes->value.max,
                         fmt::format("names in {}", name),
                         static_cast<int>(hosts->size()),
                         "they contradict each other");
  const std::string& first = hosts->front();
  source.endpoint = Stated<std::string>{fmt::format("{}:{}", first, port_of(job)), name};
  source.hosts = std::move(hosts).value();
  return ok_status();
}

}  // namespace

Result<PlacementSource> stated_by_slurm(const Environment& environment) {
  PlacementSource source;
  auto job = variable(environment, "SLURM_JOB_ID");
  if (!job) job = variable(environment, "SLURM_JOBID");
  if (!job) return source;
  source.job_name = fmt::format("Slurm job {}", *job);
  if (const auto host = variable(environment, "SLURMD_NODENAME")) source.host = *host;
  if (const auto end = variable(environment, "SLURM_JOB_END_TIME")) {
    double seconds = 0;
    const auto [stop, error] = std::from_chars(end->data(), end->data() + end->size(), seconds);
    // A partition without a limit has an end beyond all time.
    if (error == std::errc() && stop == end->data() + end->size() && seconds > 0 && seconds < 4e9)
      source.time_limit_end = Stated<double>{seconds, "SLURM_JOB_END_TIME"};
  }
  const auto step = variable(environment, "SLURM_STEP_ID");
  if (!step) {
    source.shell_only = "SLURM_STEP_ID is not set: this is a shell of the allocation, not a task of srun";
  } else if (std::find(std::begin(kShellSteps), std::end(kShellSteps), *step) != std::end(kShellSteps)) {
    source.shell_only = fmt::format("SLURM_STEP_ID = {}: this is a shell of the allocation", *step);
  }
  // `srun --pty bash` is a step with one shell in it, however many nodes it has.
  if (source.shell_only.empty() && variable(environment, "SLURM_PTY_PORT"))
    source.shell_only = "SLURM_PTY_PORT is set: this is an interactive shell";
  if (!source.shell_only.empty()) return source;

  source.rdzv_id = Stated<std::string>{*job, "SLURM_JOB_ID"};
  LLMTRAIN_ASSIGN(nodes, first_number(environment, "SLURM_STEP_NUM_NODES", "SLURM_NNODES", 1));
  if (nodes) {
    LLMTRAIN_TRY(one_task_a_node(environment, *nodes));
    source.nodes = Stated<NodeRange>{{nodes->value, nodes->value}, nodes->origin};
  }
  LLMTRAIN_ASSIGN(rank, number_of(environment, "SLURM_NODEID", 0, kMaxNodes - 1));
  if (rank && nodes && rank->value >= nodes->value)
    return contradiction(rank->origin, rank->value, nodes->origin, nodes->value, "nodes are numbered from 0");
  source.node_rank = std::move(rank);
  LLMTRAIN_TRY(add_hosts(source, environment, *job));
  return source;
}

}  // namespace llmtrain
