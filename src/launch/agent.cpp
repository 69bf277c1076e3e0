#include "llmtrain/launch/agent.hpp"

#include "llmtrain/launch/subprocess.hpp"

#include "poll_timeout.hpp"

namespace llmtrain {

Agent::Agent(HandsOptions hands,
             CoordinatorOptions coordinator,
             std::vector<int> stop_signals,
             const RunDir& run,
             FileSystem& files,
             EventSink& sink)
    : stop_signals_(std::move(stop_signals)),
      hands_(std::move(hands), run, files),
      coordinator_(std::move(coordinator), run, files, sink) {}

ExitCode Agent::run() {
  StopSignals signals(stop_signals_);
  if (const auto status = adopt_orphans(); !status)
    coordinator_.note(Severity::kWarning, to_string(status.error()));
  coordinator_.start(steady_now());
  exchange(steady_now());
  while (!coordinator_.done()) {
    wait(signals);
    const Instant now = steady_now();
    while (const auto name = signals.take()) coordinator_.receive(now, 0, StopAsked{*name});
    hands_.poll(now);
    exchange(now);
    coordinator_.tick(now);
    exchange(now);
  }
  hands_.abandon();  // those that could not be killed
  if (const auto lost = hands_.finish_logs()) coordinator_.note(Severity::kWarning, *lost);
  return coordinator_.code();
}

// Reports may cause orders, and orders reports.
void Agent::exchange(Instant now) {
  for (;;) {
    const auto reports = hands_.take_reports();
    for (const NodeReport& report : reports) coordinator_.receive(now, 0, report);
    const auto orders = coordinator_.take_orders();
    for (const AddressedOrder& order : orders) hands_.carry_out(now, order.order);
    if (reports.empty() && orders.empty()) return;
  }
}

void Agent::wait(const StopSignals& signals) const {
  std::vector<pollfd> fds = {{signals.fd(), POLLIN, 0}};
  hands_.add_poll_fds(fds);
  const auto deadline = earliest(hands_.deadline(), coordinator_.deadline());
  ::poll(fds.data(), fds.size(), poll_timeout(deadline));
}

}  // namespace llmtrain
