#include "llmtrain/diagnosis/deadlines.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/diagnosis/process_state.hpp"

namespace llmtrain {

using std::chrono::milliseconds;

namespace {

constexpr std::uint64_t kMaxWeight = 2000;  // observations that weigh in full
constexpr double kBucketsPerDoubling = 8;

bool is_slow(PhaseClass which) {
  return which != PhaseClass::kStep;
}

}  // namespace

std::string_view to_string(PhaseClass which) {
  constexpr std::array<std::string_view, kNumPhaseClasses> kNames = {
      "starting", "loading", "first step", "step", "evaluation", "saving"};
  return kNames[static_cast<std::size_t>(which)];
}

void DurationHistogram::add(milliseconds duration) {
  const double ms = static_cast<double>(std::max<std::int64_t>(duration.count(), 1));
  const auto bucket = static_cast<std::size_t>(std::log2(ms) * kBucketsPerDoubling);
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
  ++total_;
  if (++weight_ < kMaxWeight) return;
  weight_ = 0;
  for (std::uint32_t& count : buckets_) weight_ += count /= 2;
}

milliseconds DurationHistogram::percentile(double share) const {
  const double wanted = share * static_cast<double>(weight_);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    below += buckets_[i];
    if (below > 0 && static_cast<double>(below) >= wanted)
      return milliseconds(
          static_cast<std::int64_t>(std::ceil(std::exp2(static_cast<double>(i + 1) / kBucketsPerDoubling))));
  }
  return milliseconds{0};
}

void Deadlines::observe(PhaseClass which, milliseconds duration) {
  seen_[static_cast<std::size_t>(which)].add(duration);
}

milliseconds Deadlines::limit(PhaseClass which) const {
  const DurationHistogram& seen = seen_[static_cast<std::size_t>(which)];
  if (seen.count() < static_cast<std::uint64_t>(options_.enough)) {
    const bool starting =
        which == PhaseClass::kStarting || which == PhaseClass::kLoading || which == PhaseClass::kFirstStep;
    return std::max(starting ? options_.startup_timeout : options_.collective_timeout, options_.least);
  }
  double ms = options_.factor * static_cast<double>(seen.percentile(0.99).count());
  if (seen.count() < static_cast<std::uint64_t>(options_.certain)) ms *= 2;
  return std::max(milliseconds(static_cast<std::int64_t>(ms)), options_.least);
}

void ProgressWatch::start(std::int64_t resumed_step) {
  ranks_.clear();
  resumed_step_ = resumed_step;
}

PhaseClass ProgressWatch::class_of(const RankNote& note) const {
  if (note.phase == to_string(Phase::kStarting)) return PhaseClass::kStarting;
  if (note.phase == to_string(Phase::kLoading)) return PhaseClass::kLoading;
  if (note.phase == to_string(Phase::kEvaluate)) return PhaseClass::kEvaluation;
  if (note.phase == to_string(Phase::kSaving)) return PhaseClass::kSaving;
  return note.step <= resumed_step_ ? PhaseClass::kFirstStep : PhaseClass::kStep;
}

void ProgressWatch::step_took(std::int64_t step, milliseconds duration) {
  limits_.observe(step <= resumed_step_ + 1 ? PhaseClass::kFirstStep : PhaseClass::kStep, duration);
}

// Steps are measured by the run itself. What lies between them is seen here: a save, an evaluation, a start.
void ProgressWatch::sample(Instant now, const RankNote& note) {
  if (note.phase == to_string(Phase::kFinished)) return forget(note.rank);
  const auto [known, is_new] = ranks_.try_emplace(note.rank, Stretch{class_of(note), note.step, now});
  Stretch& stretch = known->second;
  stretch.seen = now;
  if (note.process_state != "T" && note.wait_channel != kFrozenChannel)
    stretch.stopped_since.reset();
  else if (!stretch.stopped_since)
    stretch.stopped_since = now;
  const PhaseClass which = class_of(note);
  if (is_new || (stretch.which == which && stretch.step == note.step)) return;
  if (stretch.which != PhaseClass::kStep && stretch.which != PhaseClass::kFirstStep)
    limits_.observe(stretch.which, now - stretch.since);
  stretch.which = which;
  stretch.step = note.step;
  stretch.since = now;
}

std::vector<int> ProgressWatch::stopped() const {
  std::vector<int> ranks;
  for (const auto& [rank, stretch] : ranks_)
    if (stretch.stopped_since && stretch.seen - *stretch.stopped_since >= stopped_limit_)
      ranks.push_back(rank);
  return ranks;
}

std::vector<int> ProgressWatch::overdue() const {
  std::vector<int> ranks = stopped();
  if (!ranks.empty()) return ranks;
  for (const auto& [rank, stretch] : ranks_) {
    if (stretch.seen - stretch.since > limits_.limit(stretch.which))
      ranks.push_back(rank);
    else if (is_slow(stretch.which))
      return {};
  }
  return ranks;
}

}  // namespace llmtrain
