#pragma once

#include <initializer_list>
#include <map>
#include <utility>
#include <vector>

#include "llmtrain/schedule/action.hpp"

// Writes the program of one stage. Every kind of action counts its own micro-batches on every chunk, so that
// a generator says only what comes next; what would lie past the last micro-batch is counted and left out.
namespace llmtrain {

class ProgramWriter {
 public:
  struct Next {
    ActionKind kind = ActionKind::kForward;
    int chunk = 0;
  };

  explicit ProgramWriter(int num_micro_batches) : num_micro_batches_(num_micro_batches) {}

  void add(Next next) {
    const int micro_batch = counts_[{next.kind, next.chunk}]++;
    if (micro_batch < num_micro_batches_) program_.push_back({next.kind, next.chunk, micro_batch});
  }
  // The pattern, `times` times over; zero or less: not at all.
  void repeat(int times, std::initializer_list<Next> pattern) {
    for (int i = 0; i < times; ++i)
      for (const Next& next : pattern) add(next);
  }

  std::vector<Action> take() { return std::move(program_); }

 private:
  int num_micro_batches_;
  std::map<std::pair<ActionKind, int>, int> counts_;
  std::vector<Action> program_;
};

}  // namespace llmtrain
