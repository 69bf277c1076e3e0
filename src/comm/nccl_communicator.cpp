#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nccl.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/store.hpp"

#include "element_type.hpp"
#include "tensor_checks.hpp"

// The only file that knows NCCL.
//
// A channel is an NCCL communicator with a stream of its own. NCCL never blocks the host here: calls that are
// still in progress are polled until a deadline. A thread watches what runs on the device and aborts all
// channels of the group when one call misses its deadline or NCCL reports an error; kernels end then, and the
// host finds the group broken.
namespace llmtrain {
namespace {

static_assert(NCCL_VERSION_CODE >= 22907, "the header of the NCCL wheel, not that of a toolkit");

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kWatchInterval{50};

std::string key_of(const RemoteGroupOptions& options) {
  return fmt::format("nccl/{}/{}/", options.name, fmt::join(options.members, "-"));
}

std::string arrived(const RemoteGroupOptions& options, std::size_t member) {
  return fmt::format("{}arrived/{}", key_of(options), member);
}

std::vector<int> not_arrived(Store& store, const RemoteGroupOptions& options) {
  std::vector<int> missing;
  for (std::size_t member = 0; member < options.members.size(); ++member)
    if (!store.get(arrived(options, member), milliseconds(0))) missing.push_back(options.members[member]);
  return missing;
}

milliseconds rest_of(Clock::time_point deadline) {
  return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { C10_CUDA_CHECK(cudaEventRecord(event_, stream)); }
  void hold_up(cudaStream_t stream) const { C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0)); }
  bool done() const { return cudaEventQuery(event_) != cudaErrorNotReady; }

 private:
  cudaEvent_t event_ = nullptr;
};

// What NCCL says when it neither succeeds nor is in progress.
class NcclFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void accept(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw NcclFailure(fmt::format("{} ({})", ncclGetErrorString(result), ncclGetLastError(comm)));
}

class Channel {
 public:
  // Returns before its peers have come; poll() says when they have.
  Channel(const ncclUniqueId& id, int rank, int size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    accept(ncclCommInitRankConfig(&comm_, size, id, rank, &config), comm_);
    int least = 0, greatest = 0;
    C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  }
  ~Channel() {
    abort();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

  // False while NCCL is at work on a call. Throws NcclFailure.
  bool poll() const {
    ncclResult_t state = ncclSuccess;
    accept(ncclCommGetAsyncError(comm_, &state), comm_);
    accept(state, comm_);
    return state != ncclInProgress;
  }
  // Ends the calls that run on the device, whatever the peers do.
  void abort() {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }
  // Ends the communicator together with its peers, when all calls are done.
  void close(Clock::time_point deadline) {
    accept(ncclCommFinalize(comm_), comm_);
    while (!poll() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
    if (poll()) ncclCommDestroy(std::exchange(comm_, nullptr));
  }

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Calls of one group on the device, on one or more channels, and the thread that watches them.
class NcclGroup {
 public:
  NcclGroup(std::shared_ptr<Store> store, const RemoteGroupOptions& options)
      : store_(std::move(store)), options_(options), device_(c10::cuda::current_device()) {
    store_->set(arrived(options_, static_cast<std::size_t>(options_.rank)), "");
    watcher_ = std::thread([this] { watch(); });
  }
  ~NcclGroup() {
    {
      const std::lock_guard lock(mutex_);
      if (!broken_) look_at_calls();
      if (!broken_ && in_flight_.empty()) close_channels();
      for (const auto& channel : channels_) channel->abort();
      stopping_ = true;
      changed_.notify_all();
    }
    watcher_.join();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  const RemoteGroupOptions& options() const { return options_; }

  // A communicator over `size` of the members, of which this rank is number `rank`.
  Channel& connect(const std::string& name, int rank, int size) {
    const auto deadline = Clock::now() + options_.timeout;
    const std::string key = key_of(options_) + name;
    ncclUniqueId id{};
    if (rank == 0) {
      accept(ncclGetUniqueId(&id), nullptr);
      store_->set(key, std::string(id.internal, sizeof id.internal));
    } else {
      const auto text = store_->get(key, rest_of(deadline));
      if (!text || text->size() != sizeof id.internal) fail_connection(name);
      std::memcpy(id.internal, text->data(), sizeof id.internal);
    }
    auto channel = std::make_unique<Channel>(id, rank, size);
    try {
      while (!channel->poll()) {
        if (Clock::now() >= deadline) fail_connection(name);
        std::this_thread::sleep_for(milliseconds(1));
      }
    } catch (const NcclFailure& failure) {
      fail_connection(name + ": " + failure.what());
    }
    const std::lock_guard lock(mutex_);
    return *channels_.emplace_back(std::move(channel));
  }

  // Issues `calls` on the channel's stream, behind what the current stream has to do so far.
  std::shared_ptr<Event> enqueue(Channel& channel,
                                 const std::string& subject,
                                 const std::vector<at::Tensor>& tensors,
                                 const std::function<ncclResult_t()>& calls) {
    const c10::cuda::CUDAGuard guard(device_);
    const auto deadline = Clock::now() + options_.timeout;
    const std::lock_guard lock(mutex_);
    throw_if_broken();
    const auto stream = c10::cuda::getStreamFromExternal(channel.stream(), device_);
    for (const at::Tensor& tensor : tensors)
      c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), stream);
    Event before;
    before.record(c10::cuda::getCurrentCUDAStream(device_).stream());
    before.hold_up(channel.stream());
    auto after = std::make_shared<Event>();
    try {
      accept(calls(), channel.comm());
      while (!channel.poll())
        if (Clock::now() >= deadline) throw NcclFailure("its peers did not take part in time");
    } catch (const NcclFailure& failure) {
      break_group(fmt::format("{} of group {} failed: {}", subject, options_.name, failure.what()));
      throw_if_broken();
    }
    after->record(channel.stream());
    in_flight_.push_back({after, deadline, subject});
    changed_.notify_all();
    return after;
  }

  // The current stream may use what the event follows.
  void wait(const Event& event) {
    const c10::cuda::CUDAGuard guard(device_);
    const std::lock_guard lock(mutex_);
    throw_if_broken();
    event.hold_up(c10::cuda::getCurrentCUDAStream(device_).stream());
  }
  // The host waits.
  void wait_on_host(const Event& event) {
    while (!event.done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const std::lock_guard lock(mutex_);
    throw_if_broken();
  }

  void cancel() {
    const std::lock_guard lock(mutex_);
    break_group(fmt::format("group {} was cancelled by its own rank", options_.name));
  }

 private:
  struct InFlight {
    std::shared_ptr<Event> after;
    Clock::time_point deadline;
    std::string subject;
  };

  [[noreturn]] void fail_connection(const std::string& what) const {
    const std::vector<int> missing = not_arrived(*store_, options_);
    throw CommError(
        fmt::format("group {} of ranks {} cannot connect ({}); did not arrive: {}",
                    options_.name,
                    fmt::join(options_.members, ", "),
                    what,
                    missing.empty() ? "nobody" : fmt::format("rank {}", fmt::join(missing, ", rank "))),
        missing);
  }

  void watch() {
    C10_CUDA_CHECK(cudaSetDevice(device_));
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      changed_.wait_for(lock, kWatchInterval);
      if (!broken_) look_at_calls();
    }
  }

  void look_at_calls() {
    while (!in_flight_.empty() && in_flight_.front().after->done()) in_flight_.pop_front();
    try {
      for (const auto& channel : channels_) channel->poll();
    } catch (const NcclFailure& failure) {
      return break_group(fmt::format("group {} lost a peer: {}", options_.name, failure.what()));
    }
    // NCCL does not tell who is missing.
    for (const InFlight& call : in_flight_)
      if (!call.after->done() && Clock::now() >= call.deadline)
        return break_group(fmt::format("{} of group {} timed out after {} s among ranks {}",
                                       call.subject,
                                       options_.name,
                                       std::chrono::duration<double>(options_.timeout).count(),
                                       fmt::join(options_.members, ", ")));
  }

  // ---- with the mutex held ----
  void throw_if_broken() const {
    if (broken_) throw CommError(failure_, {});
  }
  void break_group(const std::string& why) {
    if (!broken_) failure_ = why;
    broken_ = true;
    for (const auto& channel : channels_) channel->abort();
  }
  void close_channels() {
    const auto deadline =
        Clock::now() + std::min<std::chrono::nanoseconds>(options_.timeout, std::chrono::seconds(10));
    try {
      for (auto channel = channels_.rbegin(); channel != channels_.rend(); ++channel)
        (*channel)->close(deadline);
    } catch (const NcclFailure&) {  // aborted instead
    }
  }

  std::shared_ptr<Store> store_;
  RemoteGroupOptions options_;
  c10::DeviceIndex device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Channel>> channels_;  // in order of creation
  std::deque<InFlight> in_flight_;
  std::string failure_;
  bool broken_ = false;
  bool stopping_ = false;
  std::thread watcher_;
};

ncclDataType_t nccl_type_of(const at::Tensor& tensor) {
  switch (element_type_of(tensor)) {
    case ElementType::kBf16: return ncclBfloat16;
    case ElementType::kFp16: return ncclFloat16;
    case ElementType::kFp32: return ncclFloat32;
    case ElementType::kFp64: return ncclFloat64;
    case ElementType::kInt64: return ncclInt64;
  }
  return ncclFloat32;
}

ncclRedOp_t nccl_op_of(ReduceOp op) {
  return op == ReduceOp::kSum ? ncclSum : ncclMax;
}

class NcclPending final : public Pending {
 public:
  NcclPending(std::shared_ptr<NcclGroup> group, std::shared_ptr<Event> after)
      : group_(std::move(group)), after_(std::move(after)) {}
  void wait() override { group_->wait(*after_); }

 private:
  std::shared_ptr<NcclGroup> group_;
  std::shared_ptr<Event> after_;
};

// Between neighbours of the ring; null where there are none.
struct Lanes {
  Channel* to_next = nullptr;
  Channel* from_next = nullptr;
  Channel* to_previous = nullptr;
  Channel* from_previous = nullptr;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const std::shared_ptr<Store>& store, const RemoteGroupOptions& options)
      : group_(std::make_shared<NcclGroup>(store, options)) {
    main_ = &group_->connect("all", rank(), size());
    if (options.lanes) connect_lanes();
  }

  const std::string& name() const override { return group_->options().name; }
  int rank() const override { return group_->options().rank; }
  int size() const override { return static_cast<int>(group_->options().members.size()); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override { all_reduce_async(inout, op)->wait(); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    check_device(inout);
    const auto type = nccl_type_of(inout);
    return start("all_reduce", {inout}, [&] {
      return ncclAllReduce(
          inout.data_ptr(), inout.data_ptr(), count(inout), type, nccl_op_of(op), comm(), stream());
    });
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { all_gather_async(in, out)->wait(); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, size());
    check_device(in);
    return start("all_gather", {in, out}, [&] {
      return ncclAllGather(in.data_ptr(), out.data_ptr(), in.nbytes(), ncclUint8, comm(), stream());
    });
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    reduce_scatter_async(in, out, op)->wait();
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    check_parts(out, in, size());
    check_device(in);
    const auto type = nccl_type_of(in);
    return start("reduce_scatter", {in, out}, [&] {
      return ncclReduceScatter(
          in.data_ptr(), out.data_ptr(), count(out), type, nccl_op_of(op), comm(), stream());
    });
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, 1);
    check_device(in);
    LLMTRAIN_CHECK(in.numel() % size() == 0, "all_to_all of {} elements over {} ranks", in.numel(), size());
    const std::size_t part = in.nbytes() / static_cast<std::size_t>(size());
    start("all_to_all", {in, out}, [&] {
      ncclGroupStart();
      for (int peer = 0; peer < size(); ++peer) {
        const std::size_t place = static_cast<std::size_t>(peer) * part;
        ncclSend(static_cast<const char*>(in.data_ptr()) + place, part, ncclUint8, peer, comm(), stream());
        ncclRecv(static_cast<char*>(out.data_ptr()) + place, part, ncclUint8, peer, comm(), stream());
      }
      return ncclGroupEnd();
    })->wait();
  }
  void broadcast(at::Tensor& inout, int root) override {
    check_device(inout);
    LLMTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
    start("broadcast", {inout}, [&] {
      return ncclBroadcast(
          inout.data_ptr(), inout.data_ptr(), inout.nbytes(), ncclUint8, root, comm(), stream());
    })->wait();
  }
  void send(const at::Tensor& tensor, int to) override { send_async(tensor, to)->wait(); }
  void recv(at::Tensor& tensor, int from) override { recv_async(tensor, from)->wait(); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    check_device(tensor);
    check_peer("send", rank(), to, size());
    Channel* lane = is_next(to) ? lanes_.to_next : is_previous(to) ? lanes_.to_previous : nullptr;
    return message("send", tensor, lane, to, 1, [&](Channel& channel, int peer) {
      return ncclSend(tensor.data_ptr(), tensor.nbytes(), ncclUint8, peer, channel.comm(), channel.stream());
    });
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    check_device(tensor);
    check_peer("recv", rank(), from, size());
    Channel* lane = is_next(from) ? lanes_.from_next : is_previous(from) ? lanes_.from_previous : nullptr;
    return message("recv", tensor, lane, from, 0, [&](Channel& channel, int peer) {
      return ncclRecv(tensor.data_ptr(), tensor.nbytes(), ncclUint8, peer, channel.comm(), channel.stream());
    });
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    check_device(out);
    check_device(in);
    check_peer("send", rank(), to, size());
    check_peer("recv", rank(), from, size());
    return start("send_recv", {out, in}, [&] {
      ncclGroupStart();
      ncclSend(out.data_ptr(), out.nbytes(), ncclUint8, to, comm(), stream());
      ncclRecv(in.data_ptr(), in.nbytes(), ncclUint8, from, comm(), stream());
      return ncclGroupEnd();
    });
  }
  void barrier() override {
    at::Tensor one = at::zeros({1}, at::device(at::kCUDA).dtype(at::kFloat));  // [1]
    group_->wait_on_host(*enqueue("barrier", {one}, [&] {
      return ncclAllReduce(one.data_ptr(), one.data_ptr(), 1, ncclFloat32, ncclSum, comm(), stream());
    }));
  }
  void cancel() override { group_->cancel(); }

 private:
  static void check_device(const at::Tensor& tensor) {
    check_tensor(tensor);
    LLMTRAIN_CHECK(tensor.is_cuda(), "NCCL moves tensors of GPUs, not of {}", tensor.device().str());
  }
  static std::size_t count(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }
  ncclComm_t comm() const { return main_->comm(); }
  cudaStream_t stream() const { return main_->stream(); }
  bool is_next(int peer) const { return peer == (rank() + 1) % size(); }
  bool is_previous(int peer) const { return peer == (rank() + size() - 1) % size(); }

  std::shared_ptr<Event> enqueue(const char* verb,
                                 const std::vector<at::Tensor>& tensors,
                                 const std::function<ncclResult_t()>& calls) {
    return group_->enqueue(*main_, fmt::format("{} #{}", verb, ++calls_), tensors, calls);
  }
  std::unique_ptr<Pending> start(const char* verb,
                                 const std::vector<at::Tensor>& tensors,
                                 const std::function<ncclResult_t()>& calls) {
    return std::make_unique<NcclPending>(group_, enqueue(verb, tensors, calls));
  }

  // On its lane the peer is number `number`; in the group it is `peer`.
  std::unique_ptr<Pending> message(const char* verb,
                                   const at::Tensor& tensor,
                                   Channel* lane,
                                   int peer,
                                   int number,
                                   const std::function<ncclResult_t(Channel&, int)>& call) {
    Channel& channel = lane != nullptr ? *lane : *main_;
    const std::string subject = fmt::format(
        "{} #{} with rank {}", verb, ++calls_, group_->options().members[static_cast<std::size_t>(peer)]);
    return std::make_unique<NcclPending>(group_, group_->enqueue(channel, subject, {tensor}, [&] {
      return call(channel, lane != nullptr ? number : peer);
    }));
  }

  // Edges of the ring in order; on each the sender is number 0. The first message connects for good: it must
  // not wait for a peer that waits for something else.
  void connect_lanes() {
    const int edges = size() == 2 ? 1 : size();
    for (int edge = 0; edge < edges; ++edge) {
      const int next = (edge + 1) % size();
      if (rank() == edge) {
        lanes_.to_next = &connect_lane(edge, next);
        lanes_.from_next = &connect_lane(next, edge);
      } else if (rank() == next) {
        lanes_.from_previous = &connect_lane(edge, next);
        lanes_.to_previous = &connect_lane(next, edge);
      }
    }
    if (size() == 2 && rank() == 1) {  // the one neighbour is both
      lanes_.to_next = lanes_.to_previous;
      lanes_.from_next = lanes_.from_previous;
    }
  }
  Channel& connect_lane(int from, int to) {
    const bool sends = rank() == from;
    Channel& lane = group_->connect(fmt::format("lane/{}-{}", from, to), sends ? 0 : 1, 2);
    at::Tensor one = at::zeros({1}, at::device(at::kCUDA).dtype(at::kFloat));  // [1]
    const auto done = group_->enqueue(lane, fmt::format("connection of {} to {}", from, to), {one}, [&] {
      return sends ? ncclSend(one.data_ptr(), 1, ncclFloat32, 1, lane.comm(), lane.stream())
                   : ncclRecv(one.data_ptr(), 1, ncclFloat32, 0, lane.comm(), lane.stream());
    });
    group_->wait_on_host(*done);
    return lane;
  }

  std::shared_ptr<NcclGroup> group_;  // what is in flight holds it too
  Channel* main_ = nullptr;
  Lanes lanes_;
  std::uint64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const std::shared_ptr<Store>& store,
                                                     const RemoteGroupOptions& options) {
  return std::make_unique<NcclCommunicator>(store, options);
}

}  // namespace llmtrain
