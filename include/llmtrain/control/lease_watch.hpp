#pragma once

#include <cstdint>
#include <optional>

#include "llmtrain/control/lease.hpp"
#include "llmtrain/core/instant.hpp"

// Judges from what is seen in the run directory whether the leader lives and when this node may claim the
// next epoch. Pure: it is told what was seen and when. Only changes count, on the observer's own clock.
namespace llmtrain {

class LeaseWatch {
 public:
  explicit LeaseWatch(Milliseconds limit) : limit_(limit) {}

  void saw(Instant now, const LeaseView& view);

  const LeaseView& view() const { return view_; }
  std::int64_t epoch() const { return view_.newest ? view_.newest->epoch : 0; }
  bool seen_at(Instant now) const { return looked_at_ == now; }
  // It changed after it was first seen, and not too long ago: somebody renews it.
  bool alive(Instant now) const { return changes_ > 0 && now - changed_at_ < limit_; }

  // What is known of the leader's claim to lead.
  bool unclaimed() const { return !view_.newest; }
  bool ended() const { return has(LeaseState::kEnded); }
  bool yielded() const { return has(LeaseState::kYielded); }
  // The instant from which the lease counts as abandoned, were nothing to change any more.
  Instant abandoned_at() const { return changed_at_ + limit_; }

  // A member of the newest epoch may claim the next one at this instant: lowest number first.
  Instant member_claims_at(int node) const;
  // Somebody who was not in it, founder or former member, leaves the members time to do so.
  Instant outsider_claims_at(int node) const;

 private:
  bool has(LeaseState state) const { return view_.lease && view_.lease->state == state; }

  Milliseconds limit_;
  LeaseView view_;
  std::optional<Instant> looked_at_;
  Instant changed_at_{0};
  int changes_ = 0;  // of this epoch's lease
};

}  // namespace llmtrain
