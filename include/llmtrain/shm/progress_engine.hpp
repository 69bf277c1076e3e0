#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "llmtrain/core/result.hpp"

// One thread that carries out calls in the order in which they were submitted.
//
// It lets collectives run behind the computation. All ranks submit in the same order, hence no two
// ranks can wait for each other in different calls. The engine knows nothing about what it runs. Its
// destructor finishes the call that is running and drops the others, whose wait() then returns an error.
namespace llmtrain {

class ProgressEngine {
 public:
  // A submitted call; shared by the engine and whoever waits for it.
  class Ticket {
   public:
    Status wait();
    bool done();

   private:
    friend class ProgressEngine;
    void finish(Status status);

    std::mutex mutex_;
    std::condition_variable finished_;
    bool done_ = false;
    Status status_ = ok_status();
  };

  ProgressEngine() = default;
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  std::shared_ptr<Ticket> submit(std::function<Status()> call);

 private:
  struct Item {
    std::function<Status()> call;
    std::shared_ptr<Ticket> ticket;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::thread thread_;  // started by the first submit
};

}  // namespace llmtrain
