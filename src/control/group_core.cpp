#include "llmtrain/control/group_core.hpp"

#include <utility>

namespace llmtrain {
namespace {

constexpr Milliseconds kNoticeAfter{3'000};
constexpr Milliseconds kLongPause{1'500};

}  // namespace

GroupCore::GroupCore(GroupCoreOptions options, Instant now)
    : options_(std::move(options)),
      watch_(options_.lease_limit),
      last_tick_(now),
      waiting_since_(now),
      next_notice_(now + kNoticeAfter),
      next_dial_(now) {
  if (options_.self.survivor) node_ = options_.self.node_rank.value_or(-1);
}

void GroupCore::emit_all(GroupEvents events) {
  for (GroupEvent& event : events) emit(std::move(event));
}

void GroupCore::hang_up(LinkId& link) {
  if (link != 0) commands_.emplace_back(HangUpCommand{std::exchange(link, 0)});
}

void GroupCore::lease_seen(Instant now, const LeaseView& view) {
  if (over()) return;
  const std::int64_t before = watch_.epoch();
  watch_.saw(now, view);
  if (watch_.epoch() != before) refused_since_.reset();  // by a leader that is not the one any more
  if (leads()) {
    if (watch_.epoch() > epoch_) fence(watch_.epoch());
    return;
  }
  if (state_ == State::kFollowing && watch_.epoch() > epoch_)
    return leave_epoch(now, view.newest->host + " leads a newer epoch");
  // A member whose leader ended the job while it could not hear it. Of others the founder may begin anew.
  if (epoch_ > 0 && watch_.ended() && link_ == 0) return leader_ended();
  if (watch_.epoch() != before) next_dial_ = now;
}

void GroupCore::linked(Instant now, LinkId link, bool dialed) {
  if (over() || (dialed && (link_ != 0 || leads()))) {
    dialing_ = dialing_ && !dialed;
    return hang_up(link);
  }
  if (!dialed) {
    strangers_[link] = now;
    return;
  }
  dialing_ = false;
  link_ = link;
  join_sent_ = heard_ = now;
  JoinMessage join{options_.self, options_.instance, watch_.view().newest ? watch_.view().newest->nonce : ""};
  if (epoch_ > 0 && node_ >= 0) {
    join.identity.node_rank = node_;
    join.identity.survivor = true;
  }
  commands_.emplace_back(SendCommand{link, {watch_.epoch(), std::move(join)}});
}

void GroupCore::message(Instant now, LinkId link, const Message& message) {
  if (over()) return;
  if (link == link_)
    from_leader(now, message);
  else
    from_member(now, link, message);
}

void GroupCore::tick(Instant now, const std::function<bool(LinkId)>& acks) {
  const Milliseconds gap = now - std::exchange(last_tick_, now);
  if (over()) return;
  if (gap > kLongPause) {  // this process stood still: what it did not hear then is nobody's fault
    heard_ += gap;
    if (leads()) membership_->forgive(gap);
  }
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    LinkId link = stranger->first;
    const bool late = now - stranger->second > options_.silence_limit;
    stranger = late ? strangers_.erase(stranger) : std::next(stranger);
    if (late) hang_up(link);
  }
  if (leads()) {
    GroupEvents events;
    membership_->watch(now, acks, events);
    emit_all(std::move(events));
    lead(now);
  } else {
    watch_leader(now, acks);
  }
}

void GroupCore::release() {
  if (over()) return;
  if (leads()) {
    renew(LeaseState::kEnded);
    for (const LinkId link : membership_->links()) post(link, EndMessage{});
    drop_all_links();
  } else if (link_ != 0) {
    post(link_, EndMessage{});
    hang_up(link_);
  }
  finish();
}

}  // namespace llmtrain
