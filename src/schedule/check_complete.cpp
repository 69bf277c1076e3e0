#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "check_parts.hpp"

// Is everything there, exactly once? All actions are sorted by virtual stage and micro-batch, so the work is
// bounded by what the schedule holds, not by the numbers that it names.
namespace llmtrain {
namespace {

struct Entry {
  int virtual_stage = 0;
  int micro_batch = 0;
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  int index = 0;

  auto key() const { return std::tuple(virtual_stage, micro_batch, kind, index); }
};

std::vector<Entry> sorted_entries(const Schedule& schedule) {
  std::vector<Entry> entries;
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    const auto& program = schedule.program(stage);
    for (int index = 0; index < static_cast<int>(program.size()); ++index) {
      const Action& action = program[static_cast<std::size_t>(index)];
      entries.push_back(
          {schedule.map.virtual_stage({stage, action.chunk}), action.micro_batch, action.kind, stage, index});
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
  return entries;
}

// What one virtual stage does with one micro-batch: indexes into its stage's program, -1 where there is none.
class Share {
 public:
  Share(int virtual_stage, int micro_batch, int stage, const PlaceNamer& place, Problems& problems)
      : virtual_stage_(virtual_stage),
        micro_batch_(micro_batch),
        stage_(stage),
        place_(place),
        problems_(problems) {}

  void add(const Entry& entry) {
    int& known = found_[static_cast<std::size_t>(entry.kind)];
    if (known >= 0)
      say(entry.index, "runs a second time; the first is {}", place_(stage_, known));
    else
      known = entry.index;
  }

  // `example` names an action that has this micro-batch elsewhere.
  void judge(const std::string& example) {
    const int f = at(ActionKind::kForward), b = at(ActionKind::kBackward);
    const int i = at(ActionKind::kInputGradient), w = at(ActionKind::kWeightGradient);
    if (f < 0 && b < 0 && i < 0 && w < 0)
      return say(-1, "{} and its backward are missing{}", name(ActionKind::kForward), example);
    if (f < 0)
      return say(b >= 0 ? b : i >= 0 ? i : w, "its forward {} is missing", name(ActionKind::kForward));
    judge_backward(f, b, i, w);
  }

 private:
  void judge_backward(int f, int b, int i, int w) {
    if (b < 0 && i < 0 && w < 0)
      return say(f,
                 "its backward is missing: {}, or {} and {}",
                 name(ActionKind::kBackward),
                 name(ActionKind::kInputGradient),
                 name(ActionKind::kWeightGradient));
    if (b >= 0 && (i >= 0 || w >= 0))
      return say(
          b, "whole backward beside a half of it at {}; use B, or I and W", place_(stage_, std::max(i, w)));
    if (b < 0 && w < 0) return say(i, "its weight gradient {} is missing", name(ActionKind::kWeightGradient));
    if (b < 0 && i < 0) return say(w, "its input gradient {} is missing", name(ActionKind::kInputGradient));
    if (b >= 0 ? b < f : i < f) return say(b >= 0 ? b : i, "comes before its forward, {}", place_(stage_, f));
    if (w >= 0 && w < i) say(w, "comes before its input gradient, {}", place_(stage_, i));
  }

  int at(ActionKind kind) const { return found_[static_cast<std::size_t>(kind)]; }
  std::string name(ActionKind kind) const { return notation(virtual_stage_, kind, micro_batch_); }

  template <class... Args>
  void say(int index, fmt::format_string<Args...> format, Args&&... args) {
    if (problems_.size() >= kMaxProblems) return;
    problems_.push_back(place_(stage_, index) + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

  int virtual_stage_;
  int micro_batch_;
  int stage_;
  const PlaceNamer& place_;
  Problems& problems_;
  std::array<int, 4> found_ = {-1, -1, -1, -1};
};

// "; stage 0, action 3 (0F3) has this micro-batch", or nothing when no virtual stage has it.
std::string example_of(const std::vector<Entry>& entries, int micro_batch, const PlaceNamer& place) {
  const auto entry = std::find_if(
      entries.begin(), entries.end(), [&](const Entry& e) { return e.micro_batch == micro_batch; });
  if (entry == entries.end()) return "";
  return fmt::format("; {} has this micro-batch", place(entry->stage, entry->index));
}

}  // namespace

Problems check_complete(const Schedule& schedule, const PlaceNamer& place) {
  const std::vector<Entry> entries = sorted_entries(schedule);
  Problems problems;
  auto entry = entries.begin();
  for (int s = 0; s < schedule.map.num_virtual_stages(); ++s) {
    for (int m = 0; m < schedule.num_micro_batches; ++m) {
      if (problems.size() >= kMaxProblems) return problems;
      Share share(s, m, schedule.map.site(s).stage, place, problems);
      const auto first = entry;
      for (; entry != entries.end() && entry->virtual_stage == s && entry->micro_batch == m; ++entry)
        share.add(*entry);
      share.judge(entry == first ? example_of(entries, m, place) : "");
    }
  }
  return problems;
}

}  // namespace llmtrain
