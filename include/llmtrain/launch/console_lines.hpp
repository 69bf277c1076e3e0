#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/discovery/tee.hpp"
#include "llmtrain/launch/node_messages.hpp"
#include "llmtrain/launch/worker_process.hpp"

// Which lines of this node's workers people see while they are written: those that `--tee` chose, and
// warnings and errors of every rank.
//
// They travel to the leader, so they are few: at most so many a second, whatever workers write. What is left
// out is counted and said; the logs have all of it. Pure: time is an argument.
namespace llmtrain {

class ConsoleLines {
 public:
  using Instant = std::chrono::milliseconds;
  static constexpr int kLinesPerSecond = 20;
  static constexpr int kBurst = 100;  // after a quiet time, at once
  static constexpr std::size_t kMaxBytes = 1024;

  explicit ConsoleLines(Tee tee) : tee_(std::move(tee)) {}

  // Where the logs of the incarnation that starts lie, for the sentence about what was left out.
  void start(std::string directory) { directory_ = std::move(directory); }
  void line(int rank, int local_rank, WorkerStream stream, std::string_view text);
  // What there is to say. `last`: nobody is left who could write more.
  std::vector<NodeSaid> take(Instant now, bool last);

 private:
  Tee tee_;
  std::string directory_;
  std::vector<NodeSaid> lines_;
  int room_ = kBurst;
  Instant filled_{0};
  std::int64_t left_out_ = 0;
  std::optional<Instant> said_;  // when lines were last said to be left out
};

}  // namespace llmtrain
