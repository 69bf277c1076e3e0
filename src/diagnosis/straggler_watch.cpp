#include "llmtrain/diagnosis/straggler_watch.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace llmtrain {
namespace {

constexpr double kDeviationOfNormal = 1.4826;  // standard deviations in a median absolute deviation

// The lower one of an even number: of two ranks the faster is what is possible.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double spread_around(double median, std::vector<double> values) {
  for (double& value : values) value = std::abs(value - median);
  return kDeviationOfNormal * lower_median(std::move(values));
}

// Several ranks of a node with one cause are one change: a slow link or host has all of them.
void add(std::vector<StragglerChange>& changes, StragglerChange change) {
  for (StragglerChange& known : changes) {
    if (known.over != change.over || known.node != change.node || known.cause != change.cause) continue;
    known.ranks.push_back(change.ranks.front());
    if (change.ms - change.peers_ms <= known.ms - known.peers_ms) return;
    known.ms = change.ms;
    known.peers_ms = change.peers_ms;
    known.step_ms = change.step_ms;
    return;
  }
  changes.push_back(std::move(change));
}

}  // namespace

std::string_view to_string(StragglerCause cause) {
  constexpr std::array<std::string_view, kNumStragglerCauses> kNames = {"compute", "data", "communication"};
  return kNames[static_cast<std::size_t>(cause)];
}

void StragglerWatch::start(const MeshShape& mesh) {
  tracks_.assign(static_cast<std::size_t>(mesh.world_size()), Track{});
  full_ = 0;
  stages_.assign(static_cast<std::size_t>(mesh.pp), {});
  for (int rank = 0; rank < mesh.world_size(); ++rank)
    stages_[static_cast<std::size_t>(coord_of(mesh, rank).pp)].push_back(rank);
}

std::vector<StragglerChange> StragglerWatch::sample(const RankNote& note) {
  if (!note.costs || note.rank < 0 || note.rank >= std::ssize(tracks_)) return {};
  Track& track = tracks_[static_cast<std::size_t>(note.rank)];
  const bool was_full = has_full_window(track);
  track.newest = *note.costs;
  track.node = note.node;
  if (!std::exchange(track.seen, true)) track.mark = *note.costs;
  if (!was_full && has_full_window(track)) ++full_;
  return full_ == tracks_.size() ? close_window() : std::vector<StragglerChange>{};
}

bool StragglerWatch::has_full_window(const Track& track) const {
  return track.newest.step - track.mark.step >= options_.window;
}

std::vector<StragglerChange> StragglerWatch::close_window() {
  std::vector<StragglerChange> changes;
  for (const std::vector<int>& peers : stages_) {
    const std::map<int, Finding> slow = slow_ranks(peers);
    for (const int rank : peers) {
      const auto finding = slow.find(rank);
      Track& track = tracks_[static_cast<std::size_t>(rank)];
      if (auto change = follow(rank, track, finding == slow.end() ? nullptr : &finding->second))
        add(changes, std::move(*change));
    }
  }
  for (Track& track : tracks_) track.mark = track.newest;
  full_ = 0;
  return changes;
}

StragglerWatch::StepTimes StragglerWatch::times_of(const Track& track) {
  const CostNote& from = track.mark;
  const CostNote& to = track.newest;
  const auto steps = static_cast<double>(to.step - from.step);
  const double step = (to.total_ms - from.total_ms) / steps;
  const double compute = (to.compute_ms - from.compute_ms) / steps;
  const double data = (to.data_ms - from.data_ms) / steps;
  const double sending = (to.sending_ms - from.sending_ms) / steps;
  // What travels behind the computation costs nobody anything.
  return {step, {compute, data, std::min(sending, std::max(0.0, step - compute - data))}};
}

// By the cause that costs most, for each rank that has one.
std::map<int, StragglerWatch::Finding> StragglerWatch::slow_ranks(const std::vector<int>& peers) const {
  std::vector<StepTimes> times;
  std::vector<double> steps;
  for (const int rank : peers) {
    times.push_back(times_of(tracks_[static_cast<std::size_t>(rank)]));
    steps.push_back(times.back().step_ms);
  }
  const double step_ms = lower_median(steps);
  const double least = std::max(options_.share * step_ms, options_.least_ms);
  std::map<int, Finding> found;
  for (std::size_t cause = 0; cause < kNumStragglerCauses; ++cause) {
    // What is sent to a rank that is slow itself is long on its way: its cause comes first.
    if (static_cast<StragglerCause>(cause) == StragglerCause::kCommunication && !found.empty()) break;
    std::vector<double> values;
    for (const StepTimes& t : times) values.push_back(t.causes[cause]);
    const double median = lower_median(values);
    const double far = std::max(least, options_.deviations * spread_around(median, values));
    for (std::size_t i = 0; i < peers.size(); ++i) {
      const double excess = values[i] - median;
      if (excess < far) continue;
      const auto known = found.find(peers[i]);
      if (known != found.end() && known->second.ms - known->second.peers_ms >= excess) continue;
      found.insert_or_assign(peers[i],
                             Finding{static_cast<StragglerCause>(cause), values[i], median, step_ms});
    }
  }
  return found;
}

// One window more of one rank.
std::optional<StragglerChange> StragglerWatch::follow(int rank, Track& track, const Finding* finding) {
  const auto cause = finding != nullptr ? std::optional(finding->cause) : std::nullopt;
  track.in_a_row = cause && track.suspected == cause ? track.in_a_row + 1 : 1;
  track.suspected = cause;
  track.quiet = track.reported && track.reported != cause ? track.quiet + 1 : 0;
  if (cause && track.reported != cause && track.in_a_row >= options_.windows) {
    track.reported = cause;
    track.quiet = 0;
    return StragglerChange{false,
                           {rank},
                           track.node,
                           *cause,
                           track.newest.step,
                           finding->ms,
                           finding->peers_ms,
                           finding->step_ms};
  }
  if (track.reported && track.quiet >= options_.windows)
    return StragglerChange{.over = true,
                           .ranks = {rank},
                           .node = track.node,
                           .cause = *std::exchange(track.reported, std::nullopt),
                           .step = track.newest.step};
  return std::nullopt;
}

}  // namespace llmtrain
