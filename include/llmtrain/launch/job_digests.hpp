#pragma once

#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/spec/job_spec.hpp"

// By what nodes find out that they would not train the same thing: three short texts that must be equal on
// all of them. They find accidents, not adversaries.
namespace llmtrain {

struct JobDigests {
  std::string build;  // of the executable's bytes
  std::string job;    // of the resolved spec
  std::string data;   // of names and sizes of the token files
};
Result<JobDigests> make_job_digests(FileSystem& files,
                                    const std::string& executable,
                                    const std::string& resolved_yaml,
                                    const JobSpec& spec);

}  // namespace llmtrain
