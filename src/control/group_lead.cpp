#include <fmt/format.h>

#include "llmtrain/control/group_core.hpp"

// The part of a group's core that leads an epoch: from its claim to its end.
namespace llmtrain {
namespace {

constexpr Milliseconds kNoticeEvery{5'000};

}  // namespace

void GroupCore::claimed(Instant now, bool won, const EpochClaim& claim, const Legacy& legacy) {
  if (!won || over() || leads()) return;
  const bool succeeds = epoch_ > 0;
  const std::optional<int> lost = state_ == State::kFollowing ? std::optional(leader_node_) : std::nullopt;
  if (state_ == State::kFollowing) emit(LeaderLost{"its lease ran out; this node takes the lead", false});
  hang_up(link_);
  state_ = State::kLeading;
  leader_silent_ = false;
  epoch_ = claim.epoch;
  node_ = claim.node;
  claim_ = claim;
  gathered_ = false;
  waiting_since_ = now;
  next_notice_ = now + kNoticeEvery;
  membership_.emplace(MembershipOptions{options_.self,
                                        node_,
                                        options_.world_nodes,
                                        options_.min_nodes,
                                        options_.spares,
                                        options_.silence_limit});
  renew(LeaseState::kHeld);
  last_renewal_ = last_beat_ = now;
  emit(BecameLeader{epoch_});
  GroupEvents events;
  if (succeeds) membership_->expect(legacy, lost, now + options_.silence_limit, events);
  emit_all(std::move(events));
  publish();
}

void GroupCore::from_member(Instant now, LinkId link, const Message& m) {
  if (std::holds_alternative<JoinMessage>(m.body)) return consider(now, link, m);
  if (!leads() || m.epoch != epoch_ || strangers_.count(link) != 0) {
    closed(now, link, false, fmt::format("a message of epoch {} in epoch {}", m.epoch, epoch_));
    return hang_up(link);
  }
  GroupEvents events;
  membership_->heard(now, link, events);
  const std::optional<int> node = membership_->node_of(link);
  const auto* payload = std::get_if<PayloadMessage>(&m.body);
  if (payload && node) events.push_back(Received{*node, payload->payload});
  if (std::holds_alternative<EndMessage>(m.body)) {
    membership_->closed(link, true, "it left in good order", events);
    hang_up(link);
  }
  emit_all(std::move(events));
}

// A request to join. Only the leader answers it with yes, and only to nodes that see its claim.
void GroupCore::consider(Instant now, LinkId link, const Message& m) {
  if (strangers_.erase(link) == 0) {  // it is a member already
    closed(now, link, false, "it asked to join a second time");
    return hang_up(link);
  }
  const auto& join = std::get<JoinMessage>(m.body);
  Admission admission;
  if (!leads()) {
    admission.refusal =
        RefuseMessage{RefusalKind::kRetry, ErrorCode::kPeerLost, "the node that answers does not lead"};
  } else if (m.epoch != epoch_ || join.nonce != claim_.nonce) {
    admission.refusal = RefuseMessage{RefusalKind::kRetryBriefly,
                                      ErrorCode::kPreflight,
                                      fmt::format("{} does not see the leader's run directory: it finds "
                                                  "epoch {} there, the leader has {}{}; run.dir must be "
                                                  "one directory shared by all nodes",
                                                  join.identity.host,
                                                  m.epoch,
                                                  epoch_,
                                                  m.epoch == epoch_ ? " with another mark" : "")};
  } else {
    admission = membership_->admit(now, link, join);
  }
  if (admission.replaced != 0) hang_up(admission.replaced);
  if (admission.refusal) {
    post(link, *admission.refusal);
    hang_up(link);
  } else {
    post(link, WelcomeMessage{admission.node, node_, options_.self.host});
  }
  emit_all(std::move(admission.events));
}

void GroupCore::lead(Instant now) {
  if (now - last_renewal_ >= options_.heartbeat) {
    last_renewal_ = now;
    renew(LeaseState::kHeld);
    if (membership_->legacy() != published_) publish();
  }
  if (now - last_beat_ >= options_.heartbeat) {
    last_beat_ = now;
    for (const LinkId link : membership_->links()) post(link, HeartbeatMessage{});
  }
  if (!gathered_) report_missing(now);
}

void GroupCore::renew(LeaseState state) {
  commands_.emplace_back(RenewCommand{{epoch_, ++counter_, state}});
}

void GroupCore::publish() {
  published_ = membership_->legacy();
  commands_.emplace_back(PublishCommand{published_});
}

void GroupCore::report_missing(Instant now) {
  gathered_ = membership_->enough();
  if (gathered_) return;
  if (now - waiting_since_ >= options_.join_timeout) {
    gathered_ = true;  // said once; the owner decides
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(now - waiting_since_).count();
    return emit(
        JoinTimedOut{fmt::format("after {} s {}", waited, membership_->missing(options_.expected_hosts))});
  }
  if (now < next_notice_) return;
  next_notice_ = now + kNoticeEvery;
  emit(StillMissing{membership_->missing(options_.expected_hosts)});
}

void GroupCore::fence(std::int64_t epoch) {
  drop_all_links();
  emit(Fenced{epoch});
  finish();
}

void GroupCore::drop_all_links() {
  for (LinkId link : membership_->links()) hang_up(link);
  for (const auto& [stranger, since] : strangers_) {
    LinkId link = stranger;
    hang_up(link);
  }
  strangers_.clear();
}

bool GroupCore::send(int node, std::string payload) {
  const LinkId link = leads() ? membership_->link_of(node) : 0;
  if (link == 0) return false;
  post(link, PayloadMessage{std::move(payload)});
  return true;
}

void GroupCore::send_to_spares(const std::string& payload) {
  if (!leads()) return;
  for (const LinkId link : membership_->spare_links()) post(link, PayloadMessage{payload});
}

bool GroupCore::promote_spare(Instant now, int node) {
  if (!leads()) return false;
  GroupEvents events;
  const auto link = membership_->promote(now, node, events);
  if (!link) return false;
  post(*link, WelcomeMessage{node, node_, options_.self.host});
  emit_all(std::move(events));
  return true;
}

void GroupCore::give_up(int node) {
  if (!leads()) return;
  LinkId link = membership_->remove(node);
  hang_up(link);
}

void GroupCore::exclude(int node, const std::string& reason) {
  if (!leads()) return;
  LinkId link = membership_->exclude(node, reason);
  publish();  // before anything else happens: this leader may be lost
  if (link != 0) post(link, RefuseMessage{RefusalKind::kFinal, ErrorCode::kPreflight, reason});
  hang_up(link);
}

void GroupCore::yield_lead() {
  if (!leads()) return;
  renew(LeaseState::kYielded);
  fence(epoch_ + 1);
}

}  // namespace llmtrain
