#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/Device.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/store.hpp"

// Calls of one group of ranks on their GPUs: channels, what is in flight on them, and the thread that
// watches.
//
// A channel is an NCCL communicator with a stream of its own. NCCL never blocks the host here: calls that are
// still in progress are polled until a deadline. A thread watches what runs on the device and aborts all
// channels of the group when one call misses its deadline or NCCL reports an error; kernels end then, and the
// host finds the group broken. It knows no verbs. Only the files that
// include this know NCCL.
namespace llmtrain {

static_assert(NCCL_VERSION_CODE >= 22907, "the header of the NCCL wheel, not that of a toolkit");

// A point in what a stream has to do.
class NcclEvent {
 public:
  NcclEvent();
  ~NcclEvent();
  NcclEvent(const NcclEvent&) = delete;
  NcclEvent& operator=(const NcclEvent&) = delete;

  void record(cudaStream_t stream);
  void hold_up(cudaStream_t stream) const;
  bool done() const;

 private:
  cudaEvent_t event_ = nullptr;
};

// What NCCL says when it neither succeeds nor is in progress.
class NcclFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class NcclChannel {
 public:
  using Clock = std::chrono::steady_clock;

  // Returns before its peers have come; poll() says when they have.
  NcclChannel(const ncclUniqueId& id, int rank, int size);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  // False while NCCL is at work on a call. Throws NcclFailure.
  bool poll() const;
  // Ends the calls that run on the device, whatever the peers do.
  void abort();
  // Ends the communicator together with its peers, when all calls are done.
  void close(Clock::time_point deadline);

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

class NcclGroup {
 public:
  NcclGroup(std::shared_ptr<Store> store, const RemoteGroupOptions& options);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const RemoteGroupOptions& options() const { return options_; }

  // A communicator over `size` of the members, of which this rank is number `rank`. It lives as long as the
  // group.
  NcclChannel& connect(const std::string& name, int rank, int size);

  // Issues `calls` on the channel's stream, behind what the current stream has to do so far.
  std::shared_ptr<NcclEvent> enqueue(NcclChannel& channel,
                                     const std::string& subject,
                                     const std::vector<at::Tensor>& tensors,
                                     const std::function<ncclResult_t()>& calls);

  // The current stream may use what the event follows.
  void wait(const NcclEvent& event);
  // The host waits.
  void wait_on_host(const NcclEvent& event);

  // From any thread.
  void cancel();

 private:
  using Clock = NcclChannel::Clock;

  struct InFlight {
    std::shared_ptr<NcclEvent> after;
    Clock::time_point deadline;
    std::string subject;
  };

  [[noreturn]] void fail_connection(const std::string& what) const;
  void watch();

  // With the mutex held.
  void look_at_calls();
  void throw_if_broken() const;
  void break_group(const std::string& why);
  void close_channels();

  std::shared_ptr<Store> store_;
  RemoteGroupOptions options_;
  c10::DeviceIndex device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<NcclChannel>> channels_;  // in order of creation
  std::deque<InFlight> in_flight_;
  std::string failure_;
  bool broken_ = false;
  bool stopping_ = false;
  std::thread watcher_;
};

}  // namespace llmtrain
