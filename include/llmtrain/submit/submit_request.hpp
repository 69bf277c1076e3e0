#pragma once

#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What a generator needs to know of a job that somebody else is to start.
namespace llmtrain {

enum class SubmitTarget { kSlurm, kKubernetes, kVolcano, kKubeflow };

struct SubmitRequest {
  JobSpec spec;          // final
  std::string job_text;  // its source, for targets that carry the job themselves
  // Slurm: all of what each node runs, `llmtrain launch JOB ...`; elsewhere what follows the job.
  std::vector<std::string> command;
  std::string directory;        // absolute: where the command is run
  std::string image;            // container image; needed by all but Slurm
  std::string claim;            // Kubernetes volume claim with the run directory; "" for none
  std::string mount = "/work";  // where the claim is mounted
  double save_s = 0;            // how long a save has taken; 0 when unknown
};

// The script or manifest. A pure function: nothing is read, asked or started.
Result<std::string> slurm_script(const SubmitRequest& request);
Result<std::string> kubernetes_manifest(const SubmitRequest& request);  // indexed Job and headless Service
Result<std::string> volcano_manifest(const SubmitRequest& request);
Result<std::string> kubeflow_manifest(const SubmitRequest& request);  // TrainJob

Result<std::string> generate_submission(SubmitTarget target, const SubmitRequest& request);

}  // namespace llmtrain
