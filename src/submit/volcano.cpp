#include <fmt/format.h>

#include "llmtrain/submit/quoting.hpp"
#include "llmtrain/submit/submit_request.hpp"

#include "manifest_parts.hpp"

// A job of Volcano: all nodes at once or none, and a table from what happens to what is done. The plugin
// `svc` gives hosts their names, `env` their numbers.
namespace llmtrain {
namespace {

// Variables of a plugin come after those of the container, so only a shell sees both.
constexpr const char* kNumbered = R"(exec env PET_NODE_RANK="$VC_TASK_INDEX" "$@")";

std::string policies() {
  std::string text;
  for (const char* code : {"2", "65", "66", "67", "70", "71", "72", "73"})
    text += fmt::format("- exitCode: {}\n  action: AbortJob\n", code);
  for (const char* code : {"68", "75", "76"})
    text += fmt::format("- exitCode: {}\n  action: RestartJob\n", code);
  // One lost pod comes back alone; the others keep its place.
  text += "- event: PodEvicted\n  action: RestartTask\n- event: PodFailed\n  action: RestartTask\n";
  return text;
}

}  // namespace

Result<std::string> volcano_manifest(const SubmitRequest& request) {
  LLMTRAIN_TRY(check_manifest_request(request));
  const std::string name = resource_name(request);
  const NodeCount& nodes = request.spec.launch.nodes;
  const std::string environment = fmt::format(
      "- name: PET_NNODES\n  value: \"{}\"\n"
      "- name: PET_RDZV_ENDPOINT\n  value: \"{}-node-0.{}:{}\"\n"
      "- name: PET_RDZV_ID\n  value: {}\n",
      to_string(nodes),
      name,
      name,
      kRendezvousPort,
      yaml_quoted(name));
  const std::string launch = command_list(request, "/etc/llmtrain/job.yaml");
  const std::string command = fmt::format("[sh, -c, {}, node, {}", yaml_quoted(kNumbered), launch.substr(1));
  const std::string job = fmt::format(
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: {}\nspec:\n  schedulerName: "
      "volcano\n"
      "  minAvailable: {}\n  maxRetry: {}\n  plugins:\n    svc: [\"--publish-not-ready-addresses=true\"]\n"
      "    env: []\n  policies:\n{}"
      "  tasks:\n    - name: node\n      replicas: {}\n      policies:\n        - event: TaskCompleted\n"
      "          action: CompleteJob\n      template:\n        spec:\n",
      name,
      nodes.min,
      request.spec.resilience.max_restarts,
      indented(policies(), 4),
      nodes.max);
  return job_config_map(request) + "---\n" + job + indented(agent_pod(request, command, environment), 10);
}

}  // namespace llmtrain
