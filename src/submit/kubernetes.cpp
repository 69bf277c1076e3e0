#include <fmt/format.h>

#include "llmtrain/submit/quoting.hpp"
#include "llmtrain/submit/submit_request.hpp"

#include "manifest_parts.hpp"

// An indexed Job, whose pods have stable numbers and, with the headless Service, stable names. The agents
// read torchrun's variables, so nothing in the pods is ours but the command.
namespace llmtrain {

Result<std::string> kubernetes_manifest(const SubmitRequest& request) {
  LLMTRAIN_TRY(check_manifest_request(request));
  const std::string name = resource_name(request);
  const NodeCount& nodes = request.spec.launch.nodes;
  const std::string environment = fmt::format(
      "- name: PET_NNODES\n  value: \"{}\"\n"
      "- name: PET_NODE_RANK\n  valueFrom:\n    fieldRef:\n"
      "      fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']\n"
      "- name: PET_RDZV_ENDPOINT\n  value: \"{}-0.{}:{}\"\n"
      "- name: PET_RDZV_ID\n  value: {}\n",
      to_string(nodes),
      name,
      name,
      kRendezvousPort,
      yaml_quoted(name));
  const std::string service = fmt::format(
      "apiVersion: v1\nkind: Service\nmetadata:\n  name: {0}\nspec:\n  clusterIP: None\n"
      "  publishNotReadyAddresses: true\n  selector:\n    batch.kubernetes.io/job-name: {0}\n"
      "  ports:\n    - name: rendezvous\n      port: {1}\n",
      name,
      kRendezvousPort);
  // A pod that a node takes with it, or that was stopped and has saved, is started again without being
  // counted.
  const std::string job = fmt::format(
      "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {0}\nspec:\n  completionMode: Indexed\n"
      "  completions: {1}\n  parallelism: {1}\n  backoffLimit: {2}\n"
      "  podFailurePolicy:\n    rules:\n"
      "      - action: FailJob\n        onExitCodes:\n          containerName: node\n          operator: In\n"
      "          values: [{3}]\n"
      "      - action: Ignore\n        onExitCodes:\n          containerName: node\n          operator: In\n"
      "          values: [75]\n"
      "      - action: Ignore\n        onPodConditions:\n          - type: DisruptionTarget\n"
      "            status: \"True\"\n"
      "  template:\n    metadata:\n      labels:\n        app.kubernetes.io/name: llmtrain\n    spec:\n"
      "      subdomain: {0}\n",
      name,
      nodes.max,
      request.spec.resilience.max_restarts,
      kHopelessCodes);
  return job_config_map(request) + "---\n" + service + "---\n" + job +
         indented(agent_pod(request, command_list(request, "/etc/llmtrain/job.yaml"), environment), 6);
}

}  // namespace llmtrain
