#pragma once

#include <string>
#include <utility>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"

// The agent's end of the packet socket over which a worker asks the key-value store.
//
// It moves packets and does not look into them. A worker that does not read its answers loses them.
namespace llmtrain {

class WorkerStore {
 public:
  // The two ends; the second is for the worker.
  static Result<std::pair<WorkerStore, UniqueFd>> open();

  int fd() const { return fd_.get(); }
  // Packets that have arrived since the last call; closes the socket at its end.
  std::vector<std::string> read();
  void answer(const std::string& packet);

 private:
  explicit WorkerStore(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace llmtrain
