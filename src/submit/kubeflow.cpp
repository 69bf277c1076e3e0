#include <fmt/format.h>

#include "llmtrain/submit/quoting.hpp"
#include "llmtrain/submit/submit_request.hpp"

#include "manifest_parts.hpp"

// A TrainJob of Kubeflow's trainer, with its runtime `torch-distributed`, which sets the PET_* variables. Its
// pods are the runtime's, so the job travels in a variable instead of a mounted file.
namespace llmtrain {
namespace {

constexpr const char* kUnpack =
    R"(printf '%s' "$LLMTRAIN_JOB" >/tmp/job.yaml && exec llmtrain launch /tmp/job.yaml "$@")";

std::string overrides(const SubmitRequest& request) {
  if (request.claim.empty()) return "";
  return fmt::format(
      "  podTemplateOverrides:\n    - targetJobs:\n        - name: node\n      spec:\n        volumes:\n"
      "          - name: runs\n            persistentVolumeClaim:\n              claimName: {}\n"
      "        containers:\n          - name: node\n            volumeMounts:\n"
      "              - name: runs\n                mountPath: {}\n",
      yaml_quoted(request.claim),
      yaml_quoted(request.mount));
}

}  // namespace

Result<std::string> kubeflow_manifest(const SubmitRequest& request) {
  LLMTRAIN_TRY(check_manifest_request(request));
  const NodeCount& nodes = request.spec.launch.nodes;
  std::string command =
      fmt::format("[sh, -c, {}, node",
                  kubernetes_quoted(request.claim.empty()
                                        ? kUnpack
                                        : fmt::format("cd {} && {}", shell_quoted(request.mount), kUnpack)));
  for (const std::string& word : request.command) command += ", " + kubernetes_quoted(word);
  const std::string gpus = gpu_count(request);
  // numNodes is all there can be; a range stands in the job's own text.
  return fmt::format(
             "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata:\n  name: {}\nspec:\n"
             "  runtimeRef:\n    name: torch-distributed\n  trainer:\n    image: {}\n    numNodes: {}\n"
             "    numProcPerNode: {}\n    command: {}]\n    env:\n      - name: LLMTRAIN_JOB\n        value: "
             "{}\n",
             resource_name(request),
             yaml_quoted(request.image),
             nodes.max,
             request.spec.launch.procs_per_node.value_or(1),
             command,
             kubernetes_quoted(request.job_text)) +
         (gpus.empty()
              ? ""
              : fmt::format("    resourcesPerNode:\n      limits:\n        nvidia.com/gpu: {}\n", gpus)) +
         overrides(request);
}

Result<std::string> generate_submission(SubmitTarget target, const SubmitRequest& request) {
  switch (target) {
    case SubmitTarget::kSlurm: return slurm_script(request);
    case SubmitTarget::kKubernetes: return kubernetes_manifest(request);
    case SubmitTarget::kVolcano: return volcano_manifest(request);
    case SubmitTarget::kKubeflow: return kubeflow_manifest(request);
  }
  return slurm_script(request);
}

}  // namespace llmtrain
