#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/monitor/events.hpp"
#include "llmtrain/monitor/rank_note.hpp"
#include "llmtrain/monitor/status_file.hpp"

// Keeps <run>/control/status.json while this process leads: once a second where every rank was last seen.
//
// A courtesy to people: what cannot be written is not missed. The file goes away with an orderly end; after a
// kill it stays, and readers see that it does not change.
namespace llmtrain {

class StatusWriter {
 public:
  using Instant = std::chrono::milliseconds;

  // `files` must outlive it.
  StatusWriter(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  // What it can learn by itself: steps and restarts.
  void on(const EventBody& body);
  void saw(Instant now, const RankNote& note);
  void forget(int rank) { seen_.erase(rank); }
  void forget_ranks() { seen_.clear(); }
  bool any_rank() const { return !seen_.empty(); }
  int restarts() const { return restarts_; }

  bool due(Instant now) const { return !next_ || now >= *next_; }
  std::optional<Instant> deadline() const { return next_; }
  // `status` says what the leader knows; ranks, steps and the stamp are filled in.
  void write(Instant now, double unix_time, StatusFile status);
  void remove();

 private:
  FileSystem& files_;
  std::string path_;
  std::map<int, std::pair<Instant, RankNote>> seen_;  // by rank
  std::optional<Instant> next_;
  std::int64_t counter_ = 0;
  std::int64_t step_ = 0;
  std::int64_t total_steps_ = 0;
  int restarts_ = 0;
};

}  // namespace llmtrain
