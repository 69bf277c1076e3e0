#include "llmtrain/control/lease_watch.hpp"

namespace llmtrain {
namespace {

constexpr Milliseconds kStagger{300};          // between one number and the next
constexpr Milliseconds kOutsiderDelay{2'000};  // after the members' turn

}  // namespace

void LeaseWatch::saw(Instant now, const LeaseView& view) {
  const bool first = !looked_at_;
  const bool new_epoch = view.newest != view_.newest;
  const bool changed = view.lease != view_.lease;
  looked_at_ = now;
  if (first || new_epoch || changed) changed_at_ = now;
  // A first sight is no sign of life: the file may be years old. A lease that appears in a known epoch is.
  if (new_epoch)
    changes_ = first ? 0 : 1;
  else if (changed && !first)
    ++changes_;
  view_ = view;
}

Instant LeaseWatch::member_claims_at(int node) const {
  return (yielded() ? changed_at_ : abandoned_at()) + node * kStagger;
}

Instant LeaseWatch::outsider_claims_at(int node) const {
  if (unclaimed() || ended()) return changed_at_;
  return member_claims_at(node) + kOutsiderDelay;
}

}  // namespace llmtrain
