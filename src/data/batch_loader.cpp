#include "llmtrain/data/batch_loader.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include <pthread.h>

#include <fmt/format.h>

namespace llmtrain {

struct BatchLoader::State {
  std::shared_ptr<const SampleSet> samples;  // outlives the thread
  BatchShape shape;
  Options options;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Result<TokenBatch>> ready;
  bool stop = false;
  std::chrono::nanoseconds waited{0};
  std::thread thread;

  ~State() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  // Ends after an error, which stays in the queue, or when told to stop.
  void produce() {
    for (std::int64_t step = options.first_step;; ++step) {
      for (std::int64_t micro_batch = 0; micro_batch < shape.num_micro_batches(); ++micro_batch) {
        auto batch = load_batch(*samples, shape, step, micro_batch);
        const bool failed = !batch;
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stop || std::ssize(ready) < options.prefetch; });
        if (stop) return;
        ready.push_back(std::move(batch));
        changed.notify_all();
        if (failed) return;
      }
    }
  }
};

namespace {

// A new thread inherits the mask: signals are the main thread's business.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

Result<BatchLoader> BatchLoader::start(std::shared_ptr<const SampleSet> samples,
                                       const BatchShape& shape,
                                       const Options& options) {
  LLMTRAIN_TRY(check_shape(shape));
  if (options.prefetch < 1 || options.first_step < 1) {
    return Error{
        ErrorCode::kInvalidSpec,
        fmt::format("data.prefetch {} from step {}; both start at 1", options.prefetch, options.first_step),
        "set data.prefetch to 1 or more"};
  }
  auto state = std::make_unique<State>();
  state->samples = std::move(samples);
  state->shape = shape;
  state->options = options;
  const SignalsBlocked blocked;
  state->thread = std::thread([raw = state.get()] { raw->produce(); });
  return BatchLoader(std::move(state));
}

BatchLoader::BatchLoader(std::unique_ptr<State> state) : state_(std::move(state)) {}
BatchLoader::BatchLoader(BatchLoader&&) noexcept = default;
BatchLoader& BatchLoader::operator=(BatchLoader&&) noexcept = default;
BatchLoader::~BatchLoader() = default;

Result<TokenBatch> BatchLoader::next() {
  std::unique_lock lock(state_->mutex);
  if (state_->ready.empty()) {
    const auto start = std::chrono::steady_clock::now();
    state_->changed.wait(lock, [&] { return !state_->ready.empty(); });
    state_->waited += std::chrono::steady_clock::now() - start;
  }
  if (!state_->ready.front()) return state_->ready.front().error();
  auto batch = std::move(state_->ready.front());
  state_->ready.pop_front();
  state_->changed.notify_all();
  return batch;
}

double BatchLoader::waited_seconds() const {
  const std::lock_guard lock(state_->mutex);
  return std::chrono::duration<double>(state_->waited).count();
}

}  // namespace llmtrain
