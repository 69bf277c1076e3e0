#pragma once

#include <string>
#include <string_view>

#include "llmtrain/submit/submit_request.hpp"

// What the three manifests for Kubernetes have in common: names, the job's text, and the pod of one node.
namespace llmtrain {

inline constexpr int kRendezvousPort = 29'400;

// What no second attempt can change; the job fails at once.
inline constexpr std::string_view kHopelessCodes = "2, 65, 66, 67, 70, 71, 72, 73";

Status check_manifest_request(const SubmitRequest& request);

// The resource's name: short enough for `NAME-node-INDEX` to be a host's label.
std::string resource_name(const SubmitRequest& request);

// Each line of a text indented, for blocks inside blocks.
std::string indented(std::string_view text, int spaces);

// A ConfigMap that carries the job's text as job.yaml.
std::string job_config_map(const SubmitRequest& request);

// The command of a node with the job's path replaced by the mounted one, as a YAML list.
std::string command_list(const SubmitRequest& request, const std::string& job_path);

std::string gpu_count(const SubmitRequest& request);  // "" without GPUs

// `containers:` and `volumes:` of a pod that runs one agent. `environment` holds list items of `env:`.
std::string agent_pod(const SubmitRequest& request, std::string_view command, std::string_view environment);

}  // namespace llmtrain
