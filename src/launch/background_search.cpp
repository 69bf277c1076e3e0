#include "llmtrain/launch/background_search.hpp"

#include <csignal>

#include <sys/eventfd.h>
#include <unistd.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

BackgroundSearch::BackgroundSearch() : done_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  LLMTRAIN_CHECK(done_.valid(), "eventfd failed");
}

BackgroundSearch::~BackgroundSearch() {
  if (thread_.joinable()) thread_.join();
}

void BackgroundSearch::start(std::function<Result<ResumePoint>()> search) {
  LLMTRAIN_CHECK(!running(), "one search at a time");
  finished_ = false;
  thread_ = std::thread([this, search = std::move(search)] {
    result_ = search();
    finished_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(done_.get(), &one, sizeof one);
  });
}

std::optional<Result<ResumePoint>> BackgroundSearch::take() {
  if (!running() || !finished_) return std::nullopt;
  thread_.join();
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(done_.get(), &count, sizeof count);
  return std::exchange(result_, std::nullopt);
}

}  // namespace llmtrain
