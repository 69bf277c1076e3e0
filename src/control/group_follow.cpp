#include <fmt/format.h>

#include "llmtrain/control/group_core.hpp"

// The part of a group's core that joins a leader, follows it, and takes over when it is lost.
namespace llmtrain {
namespace {

constexpr Milliseconds kRedial{250};
constexpr Milliseconds kSpareDelay{2'000};  // after everybody else's turn
constexpr Milliseconds kNoticeEvery{5'000};

}  // namespace

void GroupCore::from_leader(Instant now, const Message& m) {
  if (const auto* refusal = std::get_if<RefuseMessage>(&m.body)) return refused(now, *refusal);
  if (const auto* welcome = std::get_if<WelcomeMessage>(&m.body)) return welcomed(now, m.epoch, *welcome);
  if (state_ != State::kFollowing || m.epoch != epoch_) {  // of an older leader that does not know it yet
    LinkId link = link_;
    closed(now, link, false, fmt::format("a message of epoch {} in epoch {}", m.epoch, epoch_));
    return hang_up(link);
  }
  heard_ = now;
  if (std::exchange(leader_silent_, false)) emit(LeaderBack{});
  if (const auto* payload = std::get_if<PayloadMessage>(&m.body))
    return emit(Received{leader_node_, payload->payload});
  if (std::holds_alternative<EndMessage>(m.body)) leader_ended();
}

void GroupCore::welcomed(Instant now, std::int64_t epoch, const WelcomeMessage& welcome) {
  if (epoch < watch_.epoch() || epoch < epoch_) {
    hang_up(link_);
    next_dial_ = now + kRedial;
    return;
  }
  const bool again = epoch == epoch_ && welcome.node == node_ && state_ == State::kFollowing;
  leader_silent_ = false;
  state_ = State::kFollowing;
  epoch_ = epoch;
  node_ = welcome.node;
  leader_node_ = welcome.leader_node;
  heard_ = now;
  refused_since_.reset();
  if (!again)
    emit(FollowsLeader{epoch, node_, welcome.leader_host});
  else
    emit(LeaderBack{});  // over another connection: what was on its way over the old one may be lost
}

void GroupCore::refused(Instant now, const RefuseMessage& refusal) {
  hang_up(link_);
  next_dial_ = now + kRedial;
  bool is_final = refusal.kind == RefusalKind::kFinal;
  if (refusal.kind == RefusalKind::kRetryBriefly) {
    // The first one proves nothing: the leader may have claimed its epoch after this node had asked.
    if (refused_since_) last_problem_ = refusal.text;
    if (!refused_since_) refused_since_ = now;
    is_final = now - *refused_since_ >= 2 * options_.silence_limit;
  } else {
    last_problem_ = refusal.text;
    refused_since_.reset();
  }
  if (!is_final) return;
  emit(JoinRefused{refusal.code, refusal.text});
  finish();
}

// Out of the epoch that this node followed, on the way to the next one.
void GroupCore::leave_epoch(Instant now, const std::string& reason) {
  hang_up(link_);
  leader_silent_ = false;
  state_ = State::kJoining;
  waiting_since_ = now;
  next_dial_ = now;
  emit(LeaderLost{reason, false});
}

void GroupCore::leader_ended() {
  hang_up(link_);
  emit(LeaderLost{"the leader ended the job", true});
  finish();
}

void GroupCore::closed(Instant now, LinkId link, bool gone, const std::string& why) {
  if (over()) return;
  strangers_.erase(link);
  if (link == link_) {
    link_ = 0;
    last_problem_ = why;
    next_dial_ = now + kRedial;
    if (state_ != State::kFollowing) return;
    waiting_since_ = now;
    if (!std::exchange(leader_silent_, true)) emit(LeaderSilent{false});
  } else if (leads()) {
    GroupEvents events;
    membership_->closed(link, gone, why, events);
    emit_all(std::move(events));
  }
}

void GroupCore::dial_failed(Instant now, const std::string& why, bool is_final) {
  dialing_ = false;
  if (over() || leads()) return;
  last_problem_ = why;
  next_dial_ = now + kRedial;
  // A stranger may have the address of a leader that is gone; where somebody is meant to be, no means no.
  if (!is_final || (dialed_published_ && !watch_.alive(now))) return;
  emit(JoinRefused{ErrorCode::kPreflight, why});
  finish();
}

// When this node may claim the next epoch, if nothing changes until then. Absent: not at all.
std::optional<Instant> GroupCore::claims_at() const {
  if (state_ == State::kFollowing) {
    const bool leader_heard = link_ != 0 && !leader_silent_;
    if (leader_heard) return std::nullopt;
    if (node_ >= 0) return watch_.member_claims_at(node_);
  }
  if (state_ == State::kJoining && link_ != 0) return std::nullopt;  // somebody is about to answer
  if (epoch_ > 0 && node_ >= 0) return watch_.outsider_claims_at(node_);
  if (epoch_ > 0) return watch_.outsider_claims_at(leader_node_) + kSpareDelay;  // no member is left
  if (options_.founder) return watch_.outsider_claims_at(options_.self.node_rank.value_or(0));
  return std::nullopt;
}

void GroupCore::watch_leader(Instant now, const std::function<bool(LinkId)>& acks) {
  if (state_ == State::kFollowing && link_ != 0) {
    if (!leader_silent_ && now - heard_ >= options_.silence_limit) {
      leader_silent_ = true;
      waiting_since_ = now;
      emit(LeaderSilent{acks(link_)});
    }
    if (now - last_beat_ >= options_.heartbeat) {
      last_beat_ = now;
      post(link_, HeartbeatMessage{});
    }
  }
  if (state_ == State::kJoining && link_ != 0 && now - join_sent_ >= options_.silence_limit) {
    last_problem_ = "the leader does not answer";
    hang_up(link_);
    next_dial_ = now;
  }
  const auto at = claims_at();
  if (at && now >= *at && watch_.seen_at(now)) {
    // The last spare takes the number of the leader that it lost.
    const int given = epoch_ > 0 ? leader_node_ : options_.self.node_rank.value_or(0);
    commands_.emplace_back(ClaimCommand{watch_.epoch() + 1, node_ >= 0 ? node_ : given});
    return;
  }
  if (link_ == 0 && !dialing_ && now >= next_dial_) dial(now);
  wait_longer(now);
}

// The leader that the run directory names, and in turn with it the endpoint that the user gave.
void GroupCore::dial(Instant now) {
  const auto& newest = watch_.view().newest;
  const bool published = newest && !watch_.ended();
  const bool endpoint = options_.endpoint && state_ == State::kJoining && epoch_ == 0;
  next_dial_ = now + kRedial;
  if (!published && !endpoint) return;
  dialed_published_ = published && !(endpoint && dialed_published_);
  dialing_ = true;
  if (dialed_published_)
    commands_.emplace_back(DialCommand{{newest->address, newest->port}, true});
  else
    commands_.emplace_back(DialCommand{*options_.endpoint, false});
}

void GroupCore::wait_longer(Instant now) {
  const bool waits = state_ == State::kJoining || link_ == 0 || leader_silent_;
  if (!waits) return;
  const char* silence = state_ == State::kFollowing ? "nothing is heard of it" : "none is known yet";
  const std::string where = last_problem_.empty() ? silence : last_problem_;
  const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - waiting_since_).count();
  if (now - waiting_since_ >= options_.join_timeout) {
    emit(JoinTimedOut{fmt::format("no leader after {} s: {}", waited, where)});
    return finish();
  }
  if (now < next_notice_) return;
  next_notice_ = now + kNoticeEvery;
  const bool nobody_yet = state_ == State::kJoining && epoch_ == 0 && !options_.founder;
  emit(StillMissing{fmt::format("waiting for the leader ({} s): {}{}",
                                waited,
                                where,
                                nobody_yet ? "; the job begins when node 0 is started" : "")});
}

bool GroupCore::send_to_leader(std::string payload) {
  if (state_ != State::kFollowing || link_ == 0) return false;
  post(link_, PayloadMessage{std::move(payload)});
  return true;
}

}  // namespace llmtrain
