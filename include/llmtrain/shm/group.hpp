#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/shm/region.hpp"

// One rank's membership in one ordered group of a shared-memory region: who is in it, and how its
// ranks wait for each other. The verbs are in collectives.hpp and point_to_point.hpp.
//
// Every wait has a deadline, and ends early when the agent aborts the region or a missing peer is gone.
// After a failure the group is broken: every other and later call returns the same error. One thread at a
// time makes its collective calls; beside it, one thread for every peer may send and one may receive.
namespace llmtrain {

struct ShmGroupOptions {
  std::string name;               // "dp": for messages
  int slot = 0;                   // 0..kGroupSlots-1; groups that share a slot share no rank
  std::vector<int> members;       // ranks inside the region, in group order
  std::vector<int> global_ranks;  // of the members, for messages; empty: same as members
  int rank = 0;                   // own position in `members`
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);
  std::chrono::nanoseconds spin = std::chrono::nanoseconds(-1);  // before sleeping; < 0: by number of cores
  std::function<void()>
      jitter;  // called before every wait, by any thread, to disturb the timing; may be null
};

// The call that a rank is about to make. Peers must make the same one, or all of them fail.
struct ShmCall {
  const char* operation = "";  // a name from the list in group.cpp
  std::uint64_t bytes = 0;
  std::uint32_t detail = 0;  // element type, reduction, root
};

// A message, which only two ranks know of.
struct ShmMessage {
  const char* operation = "";  // "send", "recv"
  int peer = 0;                // position in the group
  std::uint64_t number = 0;    // of the messages with this peer in this direction, from 1
};

class ShmGroup {
 public:
  ShmGroup(std::shared_ptr<ShmRegion> region, ShmGroupOptions options);

  const std::string& name() const { return options_.name; }
  int rank() const { return options_.rank; }
  int size() const { return static_cast<int>(options_.members.size()); }
  std::uint64_t sequence() const { return sequence_; }  // collective calls begun

  // Global ranks that did not arrive in the failed call; empty when there was none.
  std::vector<int> missing_ranks() const;
  // Ends the waits of other threads within a slice; the group is broken then.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

  // ---- for the verbs ----
  // Starts a call. Its first sync() compares it with what the peers call.
  Status begin(const ShmCall& call);
  Result<ShmMessage> begin_send(int to);
  Result<ShmMessage> begin_recv(int from);
  // Returns when all ranks of the group have entered it: what they wrote before is visible then.
  Status sync();
  // Waits for a word that only the peer of the message advances.
  Status await(WaitWord& word, std::uint32_t target, const ShmMessage& message);

  // Two chunk buffers per rank. A call takes its first chunk from next_buffer(); the other buffer may
  // still be read by slow peers until the first sync() of the call is through.
  int next_buffer() { return buffer_ ^= 1; }
  std::byte* chunk(int member, int buffer) const {
    return chunks_[static_cast<std::size_t>(2 * member + buffer)];
  }
  Lane& lane(int from, int to) const;
  std::byte* lane_chunk(int from, int to, int buffer) const;
  Status fail(const ShmMessage& message, const std::string& what);

 private:
  std::string describe_call() const;
  std::string describe(const ShmMessage& message) const;
  Status failure() const;
  Status fail(const std::string& subject,
              ErrorCode code,
              const std::string& what,
              const std::vector<int>& missing_members);
  Status compare_calls();
  bool should_give_up(const std::vector<int>& awaited, std::chrono::steady_clock::time_point deadline) const;
  Status fail_wait(const std::string& subject, const std::vector<int>& missing_members);
  std::vector<int> not_arrived() const;
  std::vector<int> awaited_in_sync() const;

  std::shared_ptr<ShmRegion> region_;
  ShmGroupOptions options_;
  std::vector<SlotCell*> cells_;  // of the members
  std::vector<std::byte*> chunks_;
  ShmCall call_;
  std::uint64_t sequence_ = 0;  // collective calls begun
  std::uint32_t arrived_;       // own syncs
  bool compare_ = false;        // the next sync is the first of its call
  int buffer_ = 1;
  std::vector<std::uint64_t> sends_;  // begun, by peer; each belongs to the thread that sends there
  std::vector<std::uint64_t> recvs_;
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> broken_{false};
  mutable std::mutex failure_mutex_;  // of the first failure, which stays
  std::vector<int> missing_;
  Error failure_;
};

}  // namespace llmtrain
