#pragma once

#include <string>
#include <vector>

#include "llmtrain/doctor/host_facts.hpp"

// Asks this host what it is. The only part of `doctor` that touches it; it leaves nothing behind.
namespace llmtrain {

// `engines` with their paths, as far as they were found; each is opened. `run_dir` empty: not asked.
HostFacts read_host(std::vector<EngineFacts> engines, const std::string& run_dir);

// Whether files can be made in `path`, or in the nearest directory above it.
RunDirFacts probe_run_dir(const std::string& path);

}  // namespace llmtrain
