#include "llmtrain/shm/group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <sched.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

constexpr std::array<const char*, 7> kOperations = {
    "?", "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "barrier"};

std::uint32_t code_of(std::string_view operation) {
  const auto it = std::find(kOperations.begin(), kOperations.end(), operation);
  return it == kOperations.end() ? 0 : static_cast<std::uint32_t>(it - kOperations.begin());
}

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Spinning pays when every rank has a core of its own; else it takes the core from the awaited peer.
std::chrono::nanoseconds default_spin(int world_size) {
  return world_size <= usable_cores() ? std::chrono::microseconds(50) : std::chrono::microseconds(1);
}

}  // namespace

ShmGroup::ShmGroup(std::shared_ptr<ShmRegion> region, ShmGroupOptions options)
    : region_(std::move(region)), options_(std::move(options)) {
  LLMTRAIN_CHECK(options_.slot >= 0 && options_.slot < kGroupSlots, "slot {}", options_.slot);
  LLMTRAIN_CHECK(rank() >= 0 && rank() < size(), "rank {} of {}", rank(), size());
  if (options_.global_ranks.empty()) options_.global_ranks = options_.members;
  LLMTRAIN_CHECK(options_.global_ranks.size() == options_.members.size(),
                 "{} names for {} ranks",
                 options_.global_ranks.size(),
                 size());
  if (options_.spin.count() < 0) options_.spin = default_spin(region_->world_size());
  for (const int member : options_.members) {
    LLMTRAIN_CHECK(
        member >= 0 && member < region_->world_size(), "rank {} of {}", member, region_->world_size());
    cells_.push_back(&region_->cell(options_.slot, member));
    for (const int buffer : {0, 1}) chunks_.push_back(region_->chunk(options_.slot, member, buffer));
  }
  arrived_ = cells_[static_cast<std::size_t>(rank())]->arrived.load(std::memory_order_relaxed);
  sends_.resize(options_.members.size());
  recvs_.resize(options_.members.size());
}

std::vector<int> ShmGroup::missing_ranks() const {
  const std::lock_guard lock(failure_mutex_);
  return missing_;
}

Status ShmGroup::begin(const ShmCall& call) {
  if (broken_.load(std::memory_order_acquire)) return failure();
  call_ = call;
  ++sequence_;
  CallRecord& record = cells_[static_cast<std::size_t>(rank())]->calls[sequence_ % 2];
  record.bytes.store(call.bytes, std::memory_order_relaxed);
  record.operation.store(code_of(call.operation), std::memory_order_relaxed);
  record.detail.store(call.detail, std::memory_order_relaxed);
  compare_ = true;
  return ok_status();
}

Result<ShmMessage> ShmGroup::begin_send(int to) {
  if (broken_.load(std::memory_order_acquire)) return failure().error();
  return ShmMessage{.operation = "send", .peer = to, .number = ++sends_[static_cast<std::size_t>(to)]};
}

Result<ShmMessage> ShmGroup::begin_recv(int from) {
  if (broken_.load(std::memory_order_acquire)) return failure().error();
  return ShmMessage{.operation = "recv", .peer = from, .number = ++recvs_[static_cast<std::size_t>(from)]};
}

Status ShmGroup::sync() {
  if (options_.jitter) options_.jitter();
  const std::uint32_t target = ++arrived_;
  SlotCell& leader = *cells_.front();
  cells_[static_cast<std::size_t>(rank())]->arrived.store(target, std::memory_order_release);
  const std::uint32_t count = leader.count.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (count == target * static_cast<std::uint32_t>(size())) {
    leader.generation.advance_to(target);
  } else if (!leader.generation.reached(target)) {
    const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
    if (!wait_until(leader.generation, target, options_.spin, [&] {
          return should_give_up(awaited_in_sync(), deadline);
        }))
      return fail_wait(describe_call(), awaited_in_sync());
  }
  return std::exchange(compare_, false) ? compare_calls() : ok_status();
}

Status ShmGroup::await(WaitWord& word, std::uint32_t target, const ShmMessage& message) {
  if (options_.jitter) options_.jitter();
  if (word.reached(target)) return ok_status();
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  if (wait_until(word, target, options_.spin, [&] { return should_give_up({message.peer}, deadline); }))
    return ok_status();
  return fail_wait(describe(message), {message.peer});
}

Status ShmGroup::compare_calls() {
  const auto own = static_cast<std::size_t>(rank());
  const CallRecord& mine = cells_[own]->calls[sequence_ % 2];
  for (std::size_t peer = 0; peer < cells_.size(); ++peer) {
    const CallRecord& theirs = cells_[peer]->calls[sequence_ % 2];
    if (mine.bytes == theirs.bytes && mine.operation == theirs.operation && mine.detail == theirs.detail)
      continue;
    const auto describe_record = [&](std::size_t member, const CallRecord& record) {
      return fmt::format("rank {} called {} of {} bytes (variant {:#x})",
                         options_.global_ranks[member],
                         kOperations[record.operation % kOperations.size()],
                         record.bytes.load(),
                         record.detail.load());
    };
    return fail(
        describe_call(),
        ErrorCode::kInternal,
        fmt::format("ranks disagree: {}, {}", describe_record(own, mine), describe_record(peer, theirs)),
        {});
  }
  return ok_status();
}

std::vector<int> ShmGroup::not_arrived() const {
  std::vector<int> members;
  for (int member = 0; member < size(); ++member) {
    const std::uint32_t arrived =
        cells_[static_cast<std::size_t>(member)]->arrived.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(arrived - arrived_) < 0) members.push_back(member);
  }
  return members;
}

// When all have arrived, the last of them has yet to say so, and may have died before it did.
std::vector<int> ShmGroup::awaited_in_sync() const {
  std::vector<int> members = not_arrived();
  if (members.empty())
    for (int member = 0; member < size(); ++member)
      if (member != rank()) members.push_back(member);
  return members;
}

bool ShmGroup::should_give_up(const std::vector<int>& awaited,
                              std::chrono::steady_clock::time_point deadline) const {
  if (cancelled_.load(std::memory_order_relaxed) || broken_.load(std::memory_order_relaxed)) return true;
  if (region_->aborted_by() >= 0) return true;
  if (std::chrono::steady_clock::now() >= deadline) return true;
  return std::any_of(awaited.begin(), awaited.end(), [&](int member) {
    return region_->gone(options_.members[static_cast<std::size_t>(member)]);
  });
}

Status ShmGroup::fail_wait(const std::string& subject, const std::vector<int>& missing_members) {
  if (cancelled_.load(std::memory_order_relaxed))
    return fail(subject, ErrorCode::kPeerLost, "was cancelled by its own rank", missing_members);
  std::vector<int> gone;
  for (const int member : missing_members)
    if (region_->gone(options_.members[static_cast<std::size_t>(member)])) gone.push_back(member);
  if (!gone.empty()) return fail(subject, ErrorCode::kPeerLost, "lost a peer that has ended", gone);
  if (const int lost = region_->aborted_by(); lost >= 0) {
    return fail(subject,
                ErrorCode::kPeerLost,
                fmt::format("was aborted by the agent because local rank {} was lost", lost),
                missing_members);
  }
  const double seconds = std::chrono::duration<double>(options_.timeout).count();
  return fail(subject, ErrorCode::kTimeout, fmt::format("timed out after {} s", seconds), missing_members);
}

std::string ShmGroup::describe_call() const {
  return fmt::format("{} #{} of group {}", call_.operation, sequence_, options_.name);
}

std::string ShmGroup::describe(const ShmMessage& message) const {
  return fmt::format("{} #{} {} rank {} of group {}",
                     message.operation,
                     message.number,
                     message.operation == std::string_view("send") ? "to" : "from",
                     options_.global_ranks[static_cast<std::size_t>(message.peer)],
                     options_.name);
}

Status ShmGroup::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

Status ShmGroup::fail(const ShmMessage& message, const std::string& what) {
  return fail(describe(message), ErrorCode::kInternal, what, {});
}

Status ShmGroup::fail(const std::string& subject,
                      ErrorCode code,
                      const std::string& what,
                      const std::vector<int>& missing_members) {
  const std::lock_guard lock(failure_mutex_);
  if (broken_.load(std::memory_order_relaxed)) return failure_;
  for (const int member : missing_members)
    missing_.push_back(options_.global_ranks[static_cast<std::size_t>(member)]);
  failure_ = {.code = code, .message = subject + " " + what, .hint = ""};
  if (!missing_.empty())
    failure_.message += fmt::format(
        "; did not arrive: rank{} {}", missing_.size() == 1 ? "" : "s", fmt::join(missing_, ", "));
  broken_.store(true, std::memory_order_release);
  return failure_;
}

Lane& ShmGroup::lane(int from, int to) const {
  return region_->lane(options_.slot,
                       options_.members[static_cast<std::size_t>(from)],
                       options_.members[static_cast<std::size_t>(to)]);
}

std::byte* ShmGroup::lane_chunk(int from, int to, int buffer) const {
  return region_->lane_chunk(options_.slot,
                             options_.members[static_cast<std::size_t>(from)],
                             options_.members[static_cast<std::size_t>(to)],
                             buffer);
}

}  // namespace llmtrain
