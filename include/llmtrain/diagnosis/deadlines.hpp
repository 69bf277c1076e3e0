#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "llmtrain/monitor/rank_note.hpp"

// How long a rank may stand still, learned from the run itself, and which ranks have stood still for longer.
//
// Pure: it is told what was seen and when. It holds a fixed number of counters whatever the length of the
// run, names nobody as guilty (verdict.hpp does), and kills nobody.
namespace llmtrain {

enum class PhaseClass { kStarting, kLoading, kFirstStep, kStep, kEvaluation, kSaving };
inline constexpr std::size_t kNumPhaseClasses = static_cast<std::size_t>(PhaseClass::kSaving) + 1;
std::string_view to_string(PhaseClass which);

// How often what took how long: eight buckets to each doubling, so a percentile is at most 9 % too high.
class DurationHistogram {
 public:
  void add(std::chrono::milliseconds duration);
  std::uint64_t count() const { return total_; }             // of all that was ever added
  std::chrono::milliseconds percentile(double share) const;  // the upper edge of its bucket

 private:
  std::array<std::uint32_t, 256> buckets_{};
  std::uint64_t weight_ = 0;  // in the buckets: halved now and then, so that old pace is forgotten
  std::uint64_t total_ = 0;
};

struct DeadlineOptions {
  double factor = 3;                                   // resilience.hang_factor
  std::chrono::milliseconds least{10'000};             // resilience.hang_min_s
  std::chrono::milliseconds startup_timeout{600'000};  // starting, loading and the first step, until learned
  std::chrono::milliseconds collective_timeout{600'000};  // all else, until learned
  // A stopped process (SIGSTOP) does not go on by itself: nothing has to be learned to see that. One that a
  // debugger holds is left alone.
  std::chrono::milliseconds stopped_limit{5'000};
  int enough = 5;    // observations from which on the run's own pace counts
  int certain = 30;  // until that many the limit is doubled: the tail is not known yet
};

class Deadlines {
 public:
  explicit Deadlines(const DeadlineOptions& options) : options_(options) {}
  void observe(PhaseClass which, std::chrono::milliseconds duration);
  std::chrono::milliseconds limit(PhaseClass which) const;

 private:
  DeadlineOptions options_;
  std::array<DurationHistogram, kNumPhaseClasses> seen_;
};

// Samples of black boxes in, ranks past their deadline out. Time is the receiver's monotonic clock.
class ProgressWatch {
 public:
  using Instant = std::chrono::milliseconds;

  explicit ProgressWatch(const DeadlineOptions& options)
      : stopped_limit_(options.stopped_limit), limits_(options) {}

  // All ranks are new; what was learned stays.
  void start(std::int64_t resumed_step);
  // As the run itself has measured it, which is finer than samples.
  void step_took(std::int64_t step, std::chrono::milliseconds duration);
  void sample(Instant now, const RankNote& note);
  void forget(int rank) { ranks_.erase(rank); }

  // Ranks whose process was stopped, if there are any. Else ranks that have stood still for too long; none
  // as long as some rank may still be busy with something slow of its own (loading, saving, evaluating): the
  // others wait for it with good reason. Only what was seen counts: of a rank that nobody reports, because
  // its node cannot be reached, it is not known whether it stands still.
  std::vector<int> overdue() const;
  const Deadlines& limits() const { return limits_; }

 private:
  struct Stretch {
    PhaseClass which;
    std::int64_t step;
    Instant since;
    Instant seen = since;  // last
    std::optional<Instant> stopped_since{};
  };
  std::vector<int> stopped() const;
  PhaseClass class_of(const RankNote& note) const;

  std::chrono::milliseconds stopped_limit_;
  Deadlines limits_;
  std::map<int, Stretch> ranks_;
  std::int64_t resumed_step_ = 0;
};

}  // namespace llmtrain
