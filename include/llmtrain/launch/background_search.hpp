#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "llmtrain/core/result.hpp"
#include "llmtrain/core/unique_fd.hpp"
#include "llmtrain/launch/resume_point.hpp"

// The search for a checkpoint on a thread of its own: reading every byte of one takes longer than a leader
// may be silent. One search at a time; going away waits for it.
namespace llmtrain {

class BackgroundSearch {
 public:
  BackgroundSearch();
  ~BackgroundSearch();
  BackgroundSearch(const BackgroundSearch&) = delete;
  BackgroundSearch& operator=(const BackgroundSearch&) = delete;

  void start(std::function<Result<ResumePoint>()> search);
  bool running() const { return thread_.joinable(); }
  int fd() const { return done_.get(); }  // readable when there is a result
  // The result, once.
  std::optional<Result<ResumePoint>> take();

 private:
  UniqueFd done_;  // an eventfd
  std::thread thread_;
  std::atomic<bool> finished_{false};
  std::optional<Result<ResumePoint>> result_;
};

}  // namespace llmtrain
