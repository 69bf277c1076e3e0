#pragma once

#include <cstdint>
#include <string>

#include "llmtrain/spec/job_spec.hpp"

// What a job asks of each host, counted on paper. Lower bounds: a host that has less cannot run it, one that
// has more may still lack what activations take.
namespace llmtrain {

struct JobNeeds {
  std::string run_dir;
  bool cuda = false;
  int nodes = 1;
  int ranks = 1;  // on this node
  int world_size = 1;
  int threads = 1;                     // of all ranks here that compute
  std::uint64_t memory = 0;            // of the host, by all ranks here
  std::uint64_t checkpoint_bytes = 0;  // one checkpoint
  int checkpoints_kept = 1;            // at once, the one that is being written included
  std::uint64_t open_files = 0;        // of the process that holds most
  std::uint64_t processes = 0;         // and threads
};

// `spec` is resolved and valid.
JobNeeds needs_of(const JobSpec& spec);

}  // namespace llmtrain
