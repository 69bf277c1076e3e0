#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "llmtrain/core/result.hpp"

// Work on a sequence of items by several threads, with results taken in the order of the items.
//
// At most four items a thread are in flight, so memory is bounded. The first error, in order, ends it.
namespace llmtrain {

template <class In, class Out>
class OrderedParallel {
 public:
  using Produce = std::function<Result<std::optional<In>>()>;  // called by one thread at a time
  using Work = std::function<Result<Out>(In)>;                 // one per thread
  using Consume = std::function<Status(Out)>;                  // on the calling thread

  static Status run(int num_threads,
                    const Produce& produce,
                    const std::function<Work()>& make_work,
                    const Consume& consume) {
    OrderedParallel shared(num_threads, produce);
    std::vector<std::thread> threads;
    for (int i = 0; i < num_threads; ++i) {
      threads.emplace_back([&shared, work = make_work()] { shared.loop(work); });
    }
    const Status status = shared.drain(consume);
    shared.stop();
    for (std::thread& thread : threads) thread.join();
    return status;
  }

 private:
  OrderedParallel(int num_threads, const Produce& produce) : window_(4 * num_threads), produce_(produce) {}

  void loop(const Work& work) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || ended_ || issued_ < consumed_ + window_; });
      if (stopped_ || ended_) return;
      auto item = produce_();
      const std::int64_t number = issued_;
      if (!item || !*item) {
        ended_ = true;
        if (!item) done_.emplace(issued_++, std::move(item).error());
        changed_.notify_all();
        return;
      }
      ++issued_;
      lock.unlock();
      auto result = work(std::move(**item));
      lock.lock();
      done_.emplace(number, std::move(result));
      changed_.notify_all();
    }
  }

  Status drain(const Consume& consume) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return done_.contains(consumed_) || (ended_ && consumed_ == issued_); });
      const auto next = done_.find(consumed_);
      if (next == done_.end()) return ok_status();
      auto result = std::move(next->second);
      done_.erase(next);
      ++consumed_;
      changed_.notify_all();
      lock.unlock();
      if (!result) return std::move(result).error();
      LLMTRAIN_TRY(consume(std::move(result).value()));
      lock.lock();
    }
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }

  const std::int64_t window_;
  const Produce& produce_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Result<Out>> done_;
  std::int64_t issued_ = 0;
  std::int64_t consumed_ = 0;
  bool ended_ = false;
  bool stopped_ = false;
};

}  // namespace llmtrain
