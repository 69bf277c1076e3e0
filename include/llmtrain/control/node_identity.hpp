#pragma once

#include <cstdint>
#include <optional>
#include <string>

// What a node says of itself when it joins. The leader compares the digests with its own; it believes the
// rest.
namespace llmtrain {

struct NodeIdentity {
  std::string rdzv_id;  // nodes of one job say the same
  std::string host;     // for people
  std::string address;  // where others reach this node's control port
  std::optional<int> node_rank;
  bool survivor = false;  // it had this number in an earlier epoch of this job
  int control_port = 0;   // 0: any free one; filled in when the port is open
  int num_workers = 1;
  std::string build, job_digest, data_digest;
  std::int64_t pid = 0;

  bool operator==(const NodeIdentity&) const = default;
};

}  // namespace llmtrain
