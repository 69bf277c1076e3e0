#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "llmtrain/monitor/rank_note.hpp"
#include "llmtrain/topology/mesh.hpp"

// Which ranks all others wait for at every step, and what takes them so long.
//
// Ranks of one pipeline stage do the same work, so they are compared with each other and with nobody else: a
// stage that is heavier by design is no straggler. A rank is one when a cause of its own takes longer than
// the median of its peers by a share of the step, far outside of their spread, in several windows of steps in
// a row. Waiting is nobody's own cause, so those who wait are never blamed, and what is sent while the rank
// computes is none.
//
// What it can't see: a node that is slow to receive looks like senders that are slow; where a stage has one
// rank, or more than half of its ranks are slow, there is nobody to compare with. Pure: it is told what was
// seen.
namespace llmtrain {

enum class StragglerCause { kCompute, kData, kCommunication };
inline constexpr std::size_t kNumStragglerCauses = 3;
std::string_view to_string(StragglerCause cause);  // "compute", "data", "communication"

struct StragglerOptions {
  double share = 0.2;  // of a step, that it makes all others lose
  std::int64_t window =
      10;                 // steps; four windows, and a second or two until they are seen, fit into 60 steps
  int windows = 3;        // in a row
  double deviations = 6;  // of the peers' spread: median absolute deviation, scaled to a normal distribution
  double least_ms = 2;    // of a step: clocks and schedulers are not finer than that
};

// Ranks of one node that became stragglers, or keep up again, at the same time and by the same cause.
struct StragglerChange {
  bool over = false;
  std::vector<int> ranks;  // ascending
  int node = 0;
  StragglerCause cause = StragglerCause::kCompute;
  std::int64_t step = 0;  // the last that was looked at
  double ms = 0;  // what the cause takes a step: of the slowest of them; then the median of their peers
  double peers_ms = 0;
  double step_ms = 0;
};

class StragglerWatch {
 public:
  explicit StragglerWatch(const StragglerOptions& options) : options_(options) {}

  // All ranks are new.
  void start(const MeshShape& mesh);
  // Empty until a window is full: until every rank has finished so many steps.
  std::vector<StragglerChange> sample(const RankNote& note);

 private:
  struct Track {
    CostNote mark;  // at the beginning of the window
    CostNote newest;
    int node = 0;
    bool seen = false;
    std::optional<StragglerCause> suspected;
    int in_a_row = 0;  // windows with what is suspected
    std::optional<StragglerCause> reported;
    int quiet = 0;  // windows without what was reported
  };
  struct Finding {
    StragglerCause cause;
    double ms = 0, peers_ms = 0, step_ms = 0;
  };
  // A step's times of one rank over the window.
  struct StepTimes {
    double step_ms = 0;
    std::array<double, kNumStragglerCauses> causes{};
  };

  bool has_full_window(const Track& track) const;
  std::vector<StragglerChange> close_window();
  std::map<int, Finding> slow_ranks(const std::vector<int>& peers) const;
  static StepTimes times_of(const Track& track);
  std::optional<StragglerChange> follow(int rank, Track& track, const Finding* finding);

  StragglerOptions options_;
  std::vector<Track> tracks_;             // by rank
  std::size_t full_ = 0;                  // tracks with a full window
  std::vector<std::vector<int>> stages_;  // ranks that do the same work
};

}  // namespace llmtrain
