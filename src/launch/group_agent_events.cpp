#include <fmt/format.h>

#include "llmtrain/launch/group_agent.hpp"

// What an agent does when something happens in the group.
namespace llmtrain {
namespace {

// Whether the coordinator has to know of it, even if it happened before there was one.
bool is_of_members(const GroupEvent& event) {
  return std::holds_alternative<MemberJoined>(event) || std::holds_alternative<SpareJoined>(event) ||
         std::holds_alternative<MemberSilent>(event) || std::holds_alternative<MemberBack>(event) ||
         std::holds_alternative<MemberLost>(event);
}

}  // namespace

void GroupAgent::dispatch(Instant now, const GroupEvent& event) {
  if (code_) return;
  const bool early = leading_ && coordinator() == nullptr;
  if (early && (is_of_members(event) || std::holds_alternative<Received>(event)))
    held_.push_back(event);
  else
    std::visit([&](const auto& e) { handle(now, e); }, event);
}

void GroupAgent::handle(Instant now, const BecameLeader& event) {
  follows_ = false;
  leading_ = {event.epoch, group_.node(), was_member_};
  was_member_ = true;
  options_.say(fmt::format("node {} leads (epoch {})", group_.node(), event.epoch));
  meet_leader(event.epoch);
  hands_.carry_out(now, NodeOrder(ClearOrder{}));
  search_.start(options_.find_checkpoint);
}

void GroupAgent::handle(Instant, const FollowsLeader& event) {
  was_member_ = true;
  follows_ = event.node >= 0;
  if (!follows_) {
    options_.say(fmt::format("waiting as a spare; {} leads (epoch {})", event.leader_host, event.epoch));
    return;
  }
  meet_leader(event.epoch);
  options_.say(fmt::format("node {} follows {} (epoch {})", event.node, event.leader_host, event.epoch));
}

void GroupAgent::handle(Instant, const LeaderSilent& event) {
  options_.say(event.link_acks
                   ? "no word from the leader: its agent stands still; workers go on as long as they can"
                   : "the leader cannot be reached: its agent is gone or the link is cut; workers go on as "
                     "long as they can");
}

void GroupAgent::handle(Instant, const LeaderBack&) {
  options_.say("the leader is heard again");
  hands_.report_again();
}

// Workers stay as they are: who lost a peer ends by itself, and the next leader starts all anew.
void GroupAgent::handle(Instant, const LeaderLost& event) {
  follows_ = false;
  if (event.ended)
    return end(ExitCode::kInternal, "the leader has ended the job and did not say how: " + event.reason);
  options_.say("the leader is lost: " + event.reason);
}

void GroupAgent::handle(Instant, const Fenced& event) {
  end(ExitCode::kHeld,
      fmt::format("fenced: epoch {} belongs to somebody else; nothing is written from here any more",
                  event.epoch));
}

void GroupAgent::handle(Instant now, const MemberJoined& event) {
  if (coordinator() != nullptr)
    coordinator()->node_joined(now, event.node, event.identity.host, event.identity.pid);
}
void GroupAgent::handle(Instant now, const SpareJoined& event) {
  if (coordinator() != nullptr) coordinator()->spare_joined(now, event.identity.host);
}
void GroupAgent::handle(Instant now, const MemberSilent& event) {
  if (coordinator() != nullptr) coordinator()->node_silent(now, event.node, event.link_acks);
}
void GroupAgent::handle(Instant now, const MemberBack& event) {
  if (coordinator() != nullptr) coordinator()->node_back(now, event.node);
}
void GroupAgent::handle(Instant now, const MemberLost& event) {
  if (coordinator() != nullptr) coordinator()->node_lost(now, event.node, event.reason);
}

void GroupAgent::handle(Instant now, const Received& event) {
  const auto garbled = [&](const Error& error) {
    if (!std::exchange(garbled_, true))
      options_.say(fmt::format("a message of node {} that is not understood: {}", event.node, error.message));
  };
  if (coordinator() != nullptr) {
    const auto report = report_from_json(event.payload);
    return report ? coordinator()->receive(now, event.node, *report) : garbled(report.error());
  }
  const auto order = order_from_json(event.payload);
  if (!order) return garbled(order.error());
  if (const auto* finish = std::get_if<FinishOrder>(&*order))
    return end(static_cast<ExitCode>(finish->code),
               fmt::format("the job has ended here: {} (exit code {})", finish->reason, finish->code));
  hands_.carry_out(now, *order);
}

void GroupAgent::handle(Instant, const StillMissing& event) {
  options_.say(event.text);
}
void GroupAgent::handle(Instant, const JoinRefused& event) {
  end(exit_code_for(event.code), event.message);
}
void GroupAgent::handle(Instant now, const JoinTimedOut& event) {
  if (coordinator() != nullptr) return coordinator()->abort(now, ExitCode::kHang, event.message);
  end(ExitCode::kHang, event.message);
}

}  // namespace llmtrain
