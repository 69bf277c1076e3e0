#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "llmtrain/shm/region.hpp"

// Ranks as threads over a region of their own: the body runs once per rank.
//
// The first failure ends the waits of the other ranks and is rethrown. Ranks that are still busy at the
// deadline are aborted, and the test program ends with a table of ranks if they do not listen. Catch2's
// assertions are not thread-safe: bodies throw (require()) or leave results for the caller to check.
namespace llmtrain::test {

inline void require(bool condition, std::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

class RankBoard {
 public:
  explicit RankBoard(int ranks) : done_(static_cast<std::size_t>(ranks), false) {}

  void finish(int rank, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    done_[static_cast<std::size_t>(rank)] = true;
    if (failure != nullptr && first_failure_ == nullptr) first_failure_ = failure;
    ++num_done_;
    changed_.notify_all();
  }
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return num_done_ == done_.size(); });
  }
  std::exception_ptr first_failure() {
    const std::lock_guard lock(mutex_);
    return first_failure_;
  }
  void print() {
    const std::lock_guard lock(mutex_);
    for (std::size_t rank = 0; rank < done_.size(); ++rank)
      std::fprintf(stderr, "rank %zu: %s\n", rank, done_[rank] ? "done" : "HANGS");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> done_;
  std::size_t num_done_ = 0;
  std::exception_ptr first_failure_;
};

inline void spawn_ranks(int ranks,
                        const std::function<void(int rank, const std::shared_ptr<ShmRegion>& region)>& body,
                        std::chrono::milliseconds deadline = std::chrono::seconds(30)) {
  const std::shared_ptr<ShmRegion> region = ShmRegion::create_private(ranks).value();
  RankBoard board(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::exception_ptr failure;
      try {
        body(rank, region);
      } catch (...) {
        failure = std::current_exception();
        region->abort(rank);
      }
      board.finish(rank, failure);
    });
  }
  const bool in_time = board.wait(deadline);
  if (!in_time) {
    std::fprintf(stderr, "spawn_ranks: not done after %lld ms\n", static_cast<long long>(deadline.count()));
    board.print();
    region->abort(0);
    if (!board.wait(std::chrono::seconds(5))) std::abort();  // a hang outside the collectives
  }
  for (std::thread& thread : threads) thread.join();
  if (!in_time) throw std::runtime_error("spawn_ranks: ranks hung; see the table above");
  if (board.first_failure() != nullptr) std::rethrow_exception(board.first_failure());
}

}  // namespace llmtrain::test
