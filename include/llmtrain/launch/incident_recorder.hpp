#pragma once

#include <map>
#include <optional>
#include <string>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/diagnosis/incident.hpp"
#include "llmtrain/diagnosis/verdict.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/launch/supervisor.hpp"

// Collects one incident from its first sign to its recovery and writes <run>/incidents/incident-<n>.json.
//
// The file is written when the failed incarnation is gone, and again when the next one has resumed and
// has finished its first step. A file that cannot be written stops nothing.
namespace llmtrain {

class IncidentRecorder {
 public:
  IncidentRecorder(FileSystem& files, const RunDir& run) : files_(files), run_(run) {}

  // The first sign of a failure. Later signs of the same failure change nothing.
  void begin(Instant now, double unix_time, int incarnation, const std::string& detected_by);
  int incarnation() const { return incident_.incarnation; }
  void note_rank(RankNote note);
  void note_end(Instant now, EndNote end);

  // All workers are gone; who failed first is decided by the verdict, where there is one that names ranks,
  // then by `first_rank`, and by the black boxes otherwise. Returns the incident as it was written.
  Incident close(Instant now,
                 std::optional<int> first_rank,
                 const std::string& action,
                 const std::optional<FailureVerdict>& verdict = std::nullopt);
  // Something on the way from the first sign to the recovery.
  void mark(Instant now, const std::string& text);
  void resumed(std::int64_t step);
  void step_finished(Instant now);

  // A new incarnation starts: nothing is known of its ranks.
  void forget_ranks() { ranks_.clear(); }
  const std::optional<Error>& write_failure() const { return write_failure_; }

 private:
  void write();
  std::string summarize() const;

  FileSystem& files_;
  RunDir run_;
  bool open_ = false;        // collecting ends
  bool recovering_ = false;  // written, waiting for the first step
  Instant began_{0};
  Incident incident_;
  std::map<int, RankNote> ranks_;
  std::optional<Error> write_failure_;
};

}  // namespace llmtrain
