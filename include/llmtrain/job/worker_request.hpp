#pragma once

#include <cstdint>
#include <string>

#include "llmtrain/core/result.hpp"

// Everything a worker needs to know, written by its agent into an inherited memory file.
//
// A worker reads no environment and guesses nothing: its place in the world, the resolved spec, the
// run directory and the inherited descriptors are all here. Agent and worker are the same binary, so
// the text has no version; the engine behind it is guarded by engine_abi.hpp.
namespace llmtrain {

struct WorkerRequest {
  int rank = 0;        // global
  int local_rank = 0;  // on this node
  int world_size = 1;
  int node = 0;
  int incarnation = 0;     // 0 = the first start of the workers in this run directory
  std::int64_t epoch = 0;  // of the control group that started it; fences checkpoints. 0 on one node
  std::string spec_yaml;   // resolved: nothing is left to decide
  std::string run_dir;
  std::string resume_path;  // step directory to continue from; empty = start from step 0
  std::string engine_path;  // the library that answers this request
  int control_fd = -1;      // stream socket to the agent: events as JSON lines (monitor/events.hpp)
  int black_box_fd = -1;    // memory file that holds one BlackBox (monitor/black_box.hpp)
  int shm_fd = -1;          // memory file of the node's collectives (shm/region.hpp); -1 = none
  int store_fd = -1;       // packet socket to the agent's key-value store (control/store_wire.hpp); -1 = none
  std::string address;     // under which other hosts reach this one; empty on one node
  std::string error_file;  // where a worker that ends by an exception says so as JSON; empty = nowhere

  friend bool operator==(const WorkerRequest&, const WorkerRequest&) = default;
};

std::string to_json(const WorkerRequest& request);

// A missing, unknown or mistyped key, and a rank outside of the world, are errors.
Result<WorkerRequest> worker_request_from_json(const std::string& text);

}  // namespace llmtrain
