#include "llmtrain/launch/status_writer.hpp"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr StatusWriter::Instant kPeriod{1000};

}  // namespace

void StatusWriter::on(const EventBody& body) {
  if (const auto* started = std::get_if<RunStarted>(&body)) {
    total_steps_ = started->total_steps;
    step_ = started->first_step;
  } else if (const auto* step = std::get_if<StepReport>(&body)) {
    step_ = step->step;
  } else if (const auto* restarted = std::get_if<Restarted>(&body)) {
    restarts_ = restarted->restarts;
  }
}

void StatusWriter::saw(Instant now, const RankNote& note) {
  seen_.insert_or_assign(note.rank, std::pair(now, note));
}

void StatusWriter::write(Instant now, double unix_time, StatusFile status) {
  next_ = now + kPeriod;
  status.counter = ++counter_;
  status.time = unix_time;
  status.step = step_;
  status.total_steps = total_steps_;
  status.restarts = restarts_;
  for (const auto& [rank, seen] : seen_) {
    const auto& [at, note] = seen;
    const auto node =
        std::find_if(status.nodes.begin(), status.nodes.end(), [&, at_node = note.node](const NodeStatus& n) {
          return n.node == at_node;
        });
    if (node == status.nodes.end()) continue;
    const double since_s = std::chrono::duration<double>(now - at).count();
    node->ranks.push_back({.rank = rank,
                           .pid = note.pid,
                           .phase = note.phase,
                           .step = note.step,
                           .micro_batch = note.micro_batch,
                           .heartbeat_age_s = note.heartbeat_age_s + since_s});
  }
  (void)write_status_file(files_, path_, status);
}

void StatusWriter::remove() {
  (void)files_.remove_file(path_);
}

}  // namespace llmtrain
