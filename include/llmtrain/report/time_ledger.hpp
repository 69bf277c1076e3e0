#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// Where a run's wall time went: every moment between its first record and its last belongs to one class.
//
// Records come in order; each says what the time since the one before it was. So the parts add up to the
// whole by construction, whatever the records claim: a step that says it took longer than the time there was
// gets that time and no more. A clock that was set back adds nothing.
namespace llmtrain {

enum class TimeClass {
  kProductive,  // in steps that count
  kReplayed,    // in steps that were lost: computed again, or cut off by a failure
  kStartup,     // of a launch, up to its first step; and its end after the last
  kEvaluation,
  kSaves,      // to the next step: ranks learn of the commit, and old checkpoints go
  kDetection,  // from a failure to its first sign
  kRestart,    // from the first sign to the next first step
  kDown,       // between launches
  kUnknown,
};
inline constexpr std::size_t kNumTimeClasses = static_cast<std::size_t>(TimeClass::kUnknown) + 1;

std::string_view name(TimeClass which);         // "productive", ...: keys in JSON
std::string_view description(TimeClass which);  // for people

struct LedgerTotals {
  std::array<double, kNumTimeClasses> seconds{};
  std::int64_t productive_steps = 0;
  std::int64_t replayed_steps = 0;

  double wall() const;
  double of(TimeClass which) const { return seconds[static_cast<std::size_t>(which)]; }
  double effective_ratio() const;  // time in steps that count, of the wall time; 0 when there was none
};

class TimeLedger {
 public:
  // `resume_steps`: the steps from which incarnations started. `started_at`: when an incarnation was begun,
  // where that is known; it parts a launch's start-up from the time before it.
  explicit TimeLedger(std::vector<std::int64_t> resume_steps, std::map<int, double> started_at = {});

  void step(int incarnation, double time, std::int64_t step, std::optional<double> seconds);
  void evaluated(int incarnation, double time);
  void saved(int incarnation, double time, double seconds);
  // The first sign of a failure. Returns how long it went unnoticed, as far as that can be told.
  std::optional<double> failed(int incarnation, double time);
  void restarting(int incarnation, double time);
  void finished(int incarnation, double time);
  // Any other record: it is known that time went on.
  void seen(int incarnation, double time);

  // `accepted_until` by incarnation (lineage.hpp); the ledger may go on afterwards.
  LedgerTotals totals(const std::map<int, std::int64_t>& accepted_until) const;
  // Steps that count and their seconds of one incarnation.
  std::pair<std::int64_t, double> productive_of(int incarnation, std::int64_t accepted_until) const;

 private:
  enum class State { kBefore, kStarting, kRunning, kFailed, kOver };
  struct Steps {
    double seconds = 0;
    std::int64_t count = 0;
  };

  void enter(int incarnation, double time);
  double take(double time);  // the time since the last record, which is used up
  void add(TimeClass which, double seconds) { seconds_[static_cast<std::size_t>(which)] += seconds; }
  TimeClass waiting() const;  // for what the time up to a record is taken when the record does not say

  std::vector<std::int64_t> resume_steps_;
  std::map<int, double> started_at_;
  State state_ = State::kBefore;
  int incarnation_ = -1;
  double last_ = 0;
  double newest_ = 0;  // of records that took no time
  double typical_step_ = 0;
  bool after_save_ = false;  // nothing but a save has been since the last step
  std::array<double, kNumTimeClasses> seconds_{};
  // By incarnation and the first resume step at or behind the step: enough to tell later which count.
  std::map<std::pair<int, std::int64_t>, Steps> steps_;
};

}  // namespace llmtrain
