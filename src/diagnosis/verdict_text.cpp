#include "llmtrain/diagnosis/verdict_text.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 13> kKinds = {"exit",
                                                     "signal",
                                                     "out_of_memory",
                                                     "hang_compute",
                                                     "hang_input",
                                                     "hang_collective",
                                                     "missing_call",
                                                     "mismatched_call",
                                                     "stopped",
                                                     "node_lost",
                                                     "transport",
                                                     "deterministic_crash",
                                                     "unknown"};

// "0, 2-4, 9"; long lists end in "and 17 more".
std::string ranges(const std::vector<int>& sorted) {
  constexpr std::size_t kMaxRanges = 12;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t end = i + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    if (parts.size() == kMaxRanges)
      return fmt::format("{} and {} more", fmt::join(parts, ", "), sorted.size() - i);
    if (end - i > 2)
      parts.push_back(fmt::format("{}-{}", sorted[i], sorted[end - 1]));
    else
      for (std::size_t k = i; k < end; ++k) parts.push_back(std::to_string(sorted[k]));
    i = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string_view to_string(FailureKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

std::optional<FailureKind> failure_kind(std::string_view word) {
  const auto found = std::find(kKinds.begin(), kKinds.end(), word);
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<FailureKind>(found - kKinds.begin());
}

std::string_view to_string(Confidence confidence) {
  constexpr std::array<std::string_view, 3> kWords = {"low", "medium", "high"};
  return kWords[static_cast<std::size_t>(confidence)];
}

std::string rank_list(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", ranges(ranks));
}

std::string place_of(const Evidence& evidence, const std::vector<int>& ranks) {
  std::set<int> nodes;
  for (const RankNote& note : evidence.ranks)
    if (std::count(ranks.begin(), ranks.end(), note.rank) > 0) nodes.insert(note.node);
  std::vector<std::string> names;
  for (const int node : nodes) {
    const auto host = evidence.hosts.find(node);
    const bool named = host != evidence.hosts.end() && !host->second.empty();
    names.push_back(named ? fmt::format("{} ({})", node, host->second) : std::to_string(node));
  }
  if (names.empty()) return rank_list(ranks);
  return fmt::format(
      "{} on node{} {}", rank_list(ranks), names.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

std::string describe(const CollectiveNote& call) {
  return fmt::format("{} {} of {} ({} bytes)", call.op, call.sequence, call.group, call.bytes);
}

std::string where(const RankNote& note) {
  const std::string& phase = note.phase;
  if (phase == to_string(Phase::kStarting)) return "while starting";
  if (phase == to_string(Phase::kLoading)) return "while loading a checkpoint";
  if (phase == to_string(Phase::kIdle)) return fmt::format("after step {}", note.step);
  if (phase == to_string(Phase::kFinished)) return fmt::format("after its last step {}", note.step);
  if (phase == to_string(Phase::kSaving) || phase == to_string(Phase::kEvaluate))
    return fmt::format("while {} after step {}", phase, note.step);
  const bool noun = phase == to_string(Phase::kForward) || phase == to_string(Phase::kBackward) ||
                    phase == to_string(Phase::kOptimizer);
  return fmt::format("{} {} of step {}", noun ? "in" : "while", phase, note.step + 1);
}

std::string advice(FailureKind kind) {
  switch (kind) {
    case FailureKind::kOutOfMemory:
      return "Raise the memory limit of the job, or lower batch.micro_batch_size or set memory.recompute";
    case FailureKind::kHangInput: return "Look at the storage that holds data.train";
    case FailureKind::kMissingCall:
    case FailureKind::kMismatchedCall:
      return "Ranks must make the same calls in the same order: monitoring.check_collectives compares them";
    case FailureKind::kStopped:
      return "Something sent it SIGSTOP, a debugger holds it, or its cgroup is frozen";
    case FailureKind::kTransport: return "Look at the network between them: links, firewalls, the interface";
    case FailureKind::kDeterministicCrash:
      return "A restart will not help: the same step fails each time; look at its data and its numbers";
    default: return {};
  }
}

}  // namespace llmtrain
