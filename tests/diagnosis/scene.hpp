#pragma once

#include <string>
#include <utility>
#include <vector>

#include "llmtrain/diagnosis/verdict.hpp"

// Builds evidence for a verdict, two ranks to a node unless told otherwise.
namespace llmtrain::test {

inline CollectiveNote call(const std::string& op,
                           std::uint64_t sequence,
                           const std::string& group,
                           std::uint64_t bytes = 1024,
                           bool finished = false) {
  return {.count = sequence,
          .group = group,
          .op = op,
          .sequence = sequence,
          .bytes = bytes,
          .finished = finished};
}

class Scene {
 public:
  explicit Scene(int world, int per_node = 2) {
    for (int rank = 0; rank < world; ++rank) {
      RankNote note;
      note.rank = rank;
      note.node = rank / per_node;
      note.step = 8;
      note.phase = "backward";
      note.heartbeat_age_s = 12;
      note.process_state = "S";
      evidence.ranks.push_back(note);
      evidence.hosts[note.node] = "host" + std::to_string(note.node);
    }
    evidence.ends.resize(evidence.hosts.size());
  }

  RankNote& rank(int r) { return evidence.ranks[static_cast<std::size_t>(r)]; }

  // `r` is inside of `c`.
  Scene& in(int r, const CollectiveNote& c, const std::string& phase = "reducing gradients") {
    rank(r).phase = phase;
    rank(r).collective = rank(r).waiting = c;
    rank(r).groups.push_back(c);
    return *this;
  }
  // `r` has finished `c` and does something else.
  Scene& past(int r, CollectiveNote c, const std::string& phase) {
    c.finished = true;
    rank(r).phase = phase;
    rank(r).collective = c;
    rank(r).groups.push_back(c);
    return *this;
  }
  Scene& signaled(int r, int number, double at_ms = 0) {
    return end(
        {.rank = r, .signaled = true, .code = number, .cause = describe_end(true, number), .at_ms = at_ms});
  }
  Scene& exited(int r, int code, double at_ms = 0) {
    return end({.rank = r, .code = code, .cause = describe_end(false, code), .at_ms = at_ms});
  }
  Scene& killed(int r, double at_ms = 30) {
    return end({.rank = r,
                .signaled = true,
                .code = 9,
                .cause = describe_end(true, 9),
                .at_ms = at_ms,
                .by_agent = true});
  }
  Scene& says(int r, const std::string& text) {
    evidence.reports.push_back({r, text});
    return *this;
  }

  FailureVerdict judged() const { return judge(evidence); }

  Evidence evidence;

 private:
  Scene& end(EndNote note) {
    evidence.ends[static_cast<std::size_t>(rank(note.rank).node)].push_back(std::move(note));
    return *this;
  }
};

}  // namespace llmtrain::test
