#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "llmtrain/comm/communicator.hpp"

// Makes this rank err in its next collective, for drills: it leaves it out, or brings other elements.
//
// Product code of the fault hooks (train/faults.hpp); a job without such a hook has no such decorator. What
// peers see is what a bug of that kind would show them: a missing call, or one of another shape.
namespace llmtrain {

// Shared by all communicators of a rank: the first collective of any of them takes what is armed.
class CallFaults {
 public:
  enum class Kind : std::uint8_t { kNone, kSkip, kWrongShape };
  void arm(Kind kind) { armed_.store(kind, std::memory_order_relaxed); }
  Kind take() { return armed_.exchange(Kind::kNone, std::memory_order_relaxed); }

 private:
  std::atomic<Kind> armed_{Kind::kNone};
};

// Messages are left alone, and so is the shape of a barrier, which has none.
std::unique_ptr<Communicator> make_erring_communicator(std::unique_ptr<Communicator> inner,
                                                       std::shared_ptr<CallFaults> faults);

}  // namespace llmtrain
