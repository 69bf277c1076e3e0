#include "llmtrain/shm/progress_engine.hpp"

#include <exception>
#include <utility>

#include <pthread.h>

namespace llmtrain {
namespace {

// A broken invariant belongs to whoever waits for the call, not to this thread.
Status run_call(const std::function<Status()>& call) {
  try {
    return call();
  } catch (const std::exception& exception) {
    return Error{ErrorCode::kInternal, exception.what(), ""};
  }
}

}  // namespace

Status ProgressEngine::Ticket::wait() {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_; });
  return status_;
}

bool ProgressEngine::Ticket::done() {
  const std::lock_guard lock(mutex_);
  return done_;
}

void ProgressEngine::Ticket::finish(Status status) {
  const std::lock_guard lock(mutex_);
  status_ = std::move(status);
  done_ = true;
  finished_.notify_all();
}

ProgressEngine::~ProgressEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (Item& item : queue_)
    item.ticket->finish(
        Error{ErrorCode::kPeerLost, "the communicators were shut down before the call ran", ""});
}

std::shared_ptr<ProgressEngine::Ticket> ProgressEngine::submit(std::function<Status()> call) {
  auto ticket = std::make_shared<Ticket>();
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  queue_.push_back({std::move(call), ticket});
  changed_.notify_all();
  return ticket;
}

void ProgressEngine::run() {
  ::pthread_setname_np(::pthread_self(), "llmtrain-comm");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    item.ticket->finish(run_call(item.call));
    lock.lock();
  }
}

}  // namespace llmtrain
