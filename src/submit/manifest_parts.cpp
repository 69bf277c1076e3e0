#include "manifest_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/submit/quoting.hpp"

namespace llmtrain {
namespace {

constexpr const char* kJobPath = "/etc/llmtrain/job.yaml";

}  // namespace

Status check_manifest_request(const SubmitRequest& request) {
  if (request.image.empty())
    return Error{ErrorCode::kUsage, "--image is missing: the container image that holds llmtrain", ""};
  for (const std::string* text : {&request.image, &request.claim, &request.mount})
    if (!is_printable(*text))
      return Error{ErrorCode::kUsage, "--image, --claim and --mount hold no control characters", ""};
  if (!request.mount.starts_with('/'))
    return Error{ErrorCode::kUsage, fmt::format("--mount {}: allowed: an absolute path", request.mount), ""};
  return ok_status();
}

std::string resource_name(const SubmitRequest& request) {
  return dns_name(request.spec.run.name, 45);
}

std::string indented(std::string_view text, int spaces) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) result += std::string(static_cast<std::size_t>(spaces), ' ');
    result += text.substr(0, end);
    result += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

std::string job_config_map(const SubmitRequest& request) {
  // In quotes: a block would depend on what the text begins and ends with.
  return fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\ndata:\n  job.yaml: {}\n",
                     resource_name(request),
                     yaml_quoted(request.job_text));
}

std::string command_list(const SubmitRequest& request, const std::string& job_path) {
  std::string list = "[llmtrain, launch";
  list += ", " + kubernetes_quoted(job_path);
  for (const std::string& word : request.command) list += ", " + kubernetes_quoted(word);
  return list + "]";
}

std::string gpu_count(const SubmitRequest& request) {
  if (request.spec.run.device != Device::kCuda) return "";
  return std::to_string(request.spec.launch.procs_per_node.value_or(1));
}

std::string agent_pod(const SubmitRequest& request, std::string_view command, std::string_view environment) {
  std::string pod = fmt::format(
      "restartPolicy: Never\n"
      "terminationGracePeriodSeconds: {}\n"
      "containers:\n"
      "  - name: node\n"
      "    image: {}\n"
      "    command: {}\n",
      std::max(120, static_cast<int>(std::min(2 * request.save_s, 65'535.0))),
      yaml_quoted(request.image),
      command);
  if (!request.claim.empty()) pod += fmt::format("    workingDir: {}\n", yaml_quoted(request.mount));
  pod += "    env:\n" + indented(environment, 6);
  pod += fmt::format("    ports:\n      - containerPort: {}\n", kRendezvousPort);
  if (const std::string gpus = gpu_count(request); !gpus.empty())
    pod += fmt::format("    resources:\n      limits:\n        nvidia.com/gpu: {}\n", gpus);
  pod += fmt::format(
      "    volumeMounts:\n"
      "      - name: job\n        mountPath: {}\n        subPath: job.yaml\n"
      "      - name: shm\n        mountPath: /dev/shm\n",
      kJobPath);
  if (!request.claim.empty())
    pod += fmt::format("      - name: runs\n        mountPath: {}\n", yaml_quoted(request.mount));
  pod += fmt::format(
      "volumes:\n"
      "  - name: job\n    configMap:\n      name: {}\n"
      "  - name: shm\n    emptyDir:\n      medium: Memory\n",
      resource_name(request));
  if (!request.claim.empty())
    pod += fmt::format("  - name: runs\n    persistentVolumeClaim:\n      claimName: {}\n",
                       yaml_quoted(request.claim));
  return pod;
}

}  // namespace llmtrain
