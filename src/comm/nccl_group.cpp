#include "nccl_group.hpp"

#include <algorithm>
#include <cstring>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "group_key.hpp"

namespace llmtrain {
namespace {

using Clock = NcclChannel::Clock;
using std::chrono::milliseconds;

constexpr milliseconds kWatchInterval{50};

std::string key_of(const RemoteGroupOptions& options) {
  return group_key("nccl", options);
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

void accept(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw NcclFailure(fmt::format("{} ({})", ncclGetErrorString(result), ncclGetLastError(comm)));
}

}  // namespace

NcclEvent::NcclEvent() {
  C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

NcclEvent::~NcclEvent() {
  cudaEventDestroy(event_);
}

void NcclEvent::record(cudaStream_t stream) {
  C10_CUDA_CHECK(cudaEventRecord(event_, stream));
}

void NcclEvent::hold_up(cudaStream_t stream) const {
  C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
}

bool NcclEvent::done() const {
  return cudaEventQuery(event_) != cudaErrorNotReady;
}

NcclChannel::NcclChannel(const ncclUniqueId& id, int rank, int size) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  accept(ncclCommInitRankConfig(&comm_, size, id, rank, &config), comm_);
  int least = 0, greatest = 0;
  C10_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  C10_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}

NcclChannel::~NcclChannel() {
  abort();
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

bool NcclChannel::poll() const {
  ncclResult_t state = ncclSuccess;
  accept(ncclCommGetAsyncError(comm_, &state), comm_);
  accept(state, comm_);
  return state != ncclInProgress;
}

void NcclChannel::abort() {
  if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
}

void NcclChannel::close(Clock::time_point deadline) {
  accept(ncclCommFinalize(comm_), comm_);
  while (!poll() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(1));
  if (poll()) ncclCommDestroy(std::exchange(comm_, nullptr));
}

NcclGroup::NcclGroup(std::shared_ptr<Store> store, const RemoteGroupOptions& options)
    : store_(std::move(store)), options_(options), device_(c10::cuda::current_device()) {
  store_->set(arrived(options_, static_cast<std::size_t>(options_.rank)), "");
  watcher_ = std::thread([this] { watch(); });
}

NcclGroup::~NcclGroup() {
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

NcclChannel& NcclGroup::connect(const std::string& name, int rank, int size) {
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
  auto channel = std::make_unique<NcclChannel>(id, rank, size);
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

std::shared_ptr<NcclEvent> NcclGroup::enqueue(NcclChannel& channel,
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
  NcclEvent before;
  before.record(c10::cuda::getCurrentCUDAStream(device_).stream());
  before.hold_up(channel.stream());
  auto after = std::make_shared<NcclEvent>();
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

void NcclGroup::wait(const NcclEvent& event) {
  const c10::cuda::CUDAGuard guard(device_);
  const std::lock_guard lock(mutex_);
  throw_if_broken();
  event.hold_up(c10::cuda::getCurrentCUDAStream(device_).stream());
}

void NcclGroup::wait_on_host(const NcclEvent& event) {
  while (!event.done()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  const std::lock_guard lock(mutex_);
  throw_if_broken();
}

void NcclGroup::cancel() {
  const std::lock_guard lock(mutex_);
  break_group(fmt::format("group {} was cancelled by its own rank", options_.name));
}

void NcclGroup::fail_connection(const std::string& what) const {
  const std::vector<int> missing = not_arrived(*store_, options_);
  throw CommError(
      fmt::format("group {} of ranks {} cannot connect ({}); did not arrive: {}",
                  options_.name,
                  fmt::join(options_.members, ", "),
                  what,
                  missing.empty() ? "nobody" : fmt::format("rank {}", fmt::join(missing, ", rank "))),
      missing);
}

void NcclGroup::watch() {
  C10_CUDA_CHECK(cudaSetDevice(device_));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, kWatchInterval);
    if (!broken_) look_at_calls();
  }
}

void NcclGroup::look_at_calls() {
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

void NcclGroup::throw_if_broken() const {
  if (broken_) throw CommError(failure_, {});
}

void NcclGroup::break_group(const std::string& why) {
  if (!broken_) failure_ = why;
  broken_ = true;
  for (const auto& channel : channels_) channel->abort();
}

void NcclGroup::close_channels() {
  const auto deadline =
      Clock::now() + std::min<std::chrono::nanoseconds>(options_.timeout, std::chrono::seconds(10));
  try {
    for (auto channel = channels_.rbegin(); channel != channels_.rend(); ++channel)
      (*channel)->close(deadline);
  } catch (const NcclFailure&) {  // aborted instead
  }
}

}  // namespace llmtrain
