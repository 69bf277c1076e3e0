#include "llmtrain/launch/group_agent.hpp"

#include <fmt/format.h>

#include "llmtrain/launch/subprocess.hpp"

#include "poll_timeout.hpp"

namespace llmtrain {

GroupAgent::GroupAgent(GroupAgentOptions options, ControlGroup& group, const RunDir& run, FileSystem& files)
    : options_(std::move(options)), group_(group), hands_(options_.hands, run, files) {}

ExitCode GroupAgent::run() {
  StopSignals signals(options_.stop_signals);
  if (const auto status = adopt_orphans(); !status) options_.say(to_string(status.error()));
  while (!code_) {
    wait(signals);
    const Instant now = steady_now();
    while (const auto name = signals.take()) handle_signal(now, *name);
    for (const GroupEvent& event : group_.poll(now)) dispatch(now, event);
    begin_to_lead(now);
    hands_.poll(now);
    if (!options_.silences.empty()) fall_silent(now);
    exchange(now);
    if (coordinator() != nullptr) {
      coordinator()->tick(now);
      exchange(now);
      if (coordinator()->cut_off() && group_.lost_majority()) group_.yield_lead();
      if (coordinator()->done()) code_ = coordinator()->code();
    }
  }
  hands_.end_all();
  group_.release();
  if (const auto lost = hands_.finish_logs()) options_.say(*lost);
  return *code_;
}

void GroupAgent::wait(const StopSignals& signals) const {
  std::vector<pollfd> fds = {{signals.fd(), POLLIN, 0}, {search_.fd(), POLLIN, 0}};
  hands_.add_poll_fds(fds);
  group_.add_poll_fds(fds);
  auto deadline = earliest(hands_.deadline(), group_.deadline());
  if (coordinator() != nullptr) {
    coordinator()->add_poll_fds(fds);
    deadline = earliest(deadline, coordinator()->deadline());
  }
  ::poll(fds.data(), fds.size(), poll_timeout(deadline));
}

void GroupAgent::handle_signal(Instant now, const std::string& name) {
  if (++signals_ == 1) signal_ = name;
  if (!was_member_) return end(ExitCode::kPreempted, name + " before the nodes had met");
  asked_.push_back(name);
  exchange(now);
  // Nobody is there who could make all stop at one step.
  if (signals_ > 1 && !asked_.empty())
    end(ExitCode::kPreemptedUnsaved, name + " while no leader could be reached");
}

void GroupAgent::begin_to_lead(Instant now) {
  if (!leading_ || coordinator() != nullptr || code_) return;
  const auto from = search_.take();
  if (!from) return;
  if (!*from) return end(exit_code_for(from->error().code), to_string(from->error()));
  auto leadership = options_.lead(*leading_, **from);
  if (!leadership) return end(exit_code_for(leadership.error().code), to_string(leadership.error()));
  leadership_ = std::move(leadership).value();
  if (coordinator() == nullptr) {
    for (const GroupEvent& event : std::exchange(held_, {}))
      if (const auto* joined = std::get_if<MemberJoined>(&event))
        group_.send(joined->node, to_json(NodeOrder(FinishOrder{0, "the run is finished"})));
    return end(ExitCode::kDone, "the run is finished");
  }
  coordinator()->start(now);
  for (const GroupEvent& event : std::exchange(held_, {})) dispatch(now, event);
}

// Reports may cause orders, and orders reports.
void GroupAgent::exchange(Instant now) {
  while (!code_ && (pass_reports(now) || pass_orders(now))) {
  }
}

bool GroupAgent::pass_reports(Instant now) {
  if (coordinator() == nullptr && !follows_) return false;
  auto reports = hands_.take_reports();
  for (std::string& name : std::exchange(asked_, {})) reports.push_back(StopAsked{std::move(name)});
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (coordinator() != nullptr) {
      coordinator()->receive(now, leading_->node, reports[i]);
    } else if (!group_.send_to_leader(to_json(reports[i]))) {
      reports.erase(reports.begin(), reports.begin() + static_cast<std::ptrdiff_t>(i));
      hands_.put_back(std::move(reports));
      return false;
    }
  }
  return !reports.empty();
}

bool GroupAgent::pass_orders(Instant now) {
  if (coordinator() == nullptr) return false;
  const auto orders = coordinator()->take_orders();
  for (const AddressedOrder& order : orders) {
    if (order.node == leading_->node && std::holds_alternative<FinishOrder>(order.order))
      group_.send_to_spares(to_json(order.order));  // that nobody needed
    if (order.node == leading_->node)
      hands_.carry_out(now, order.order);
    else
      group_.send(order.node, to_json(order.order));  // a node that is not there is known to be lost
  }
  change_membership();
  return !orders.empty();
}

void GroupAgent::change_membership() {
  for (const MembershipChange& change : coordinator()->take_changes()) switch (change.kind) {
      case MembershipChange::Kind::kGiveUp: group_.give_up(change.node); break;
      case MembershipChange::Kind::kExclude: group_.exclude(change.node, change.reason); break;
      case MembershipChange::Kind::kPromoteSpare: group_.promote_spare(change.node); break;
    }
}

void GroupAgent::fall_silent(Instant now) {
  std::erase_if(options_.silences, [&](const Silence& fault) {
    const bool here = fault.node < 0 || fault.node == group_.node();
    const bool now_due = fault.incarnation < 0 || fault.incarnation == hands_.incarnation();
    if (hands_.idle() || !here || !now_due || hands_.newest_step() < fault.step) return false;
    options_.say(fmt::format("fault: nothing is sent to other agents for {} ms", fault.length.count()));
    group_.mute(now + fault.length);
    return true;
  });
}

// Who died while it carried out a stop took the wish with it.
void GroupAgent::meet_leader(std::int64_t epoch) {
  const bool is_new = std::exchange(epoch_, epoch) != epoch;
  if (is_new && signals_ > 0 && asked_.empty()) asked_.push_back(signal_);
}

void GroupAgent::end(ExitCode code, const std::string& reason) {
  if (code_) return;
  options_.say(reason);
  code_ = code;
}

}  // namespace llmtrain
