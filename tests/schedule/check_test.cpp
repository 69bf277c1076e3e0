#include "llmtrain/schedule/check.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "llmtrain/core/check.hpp"
#include "llmtrain/schedule/timeline.hpp"

#include "schedule_support.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr auto kF = ActionKind::kForward;
constexpr auto kB = ActionKind::kBackward;
constexpr auto kI = ActionKind::kInputGradient;
constexpr auto kW = ActionKind::kWeightGradient;

// One stage a program, one chunk each.
Schedule schedule_of(int micro_batches, std::vector<std::vector<Action>> programs) {
  const auto pp = static_cast<int>(programs.size());
  return {"test", micro_batches, StageMap::loop(pp, 1), std::move(programs)};
}

std::string only_problem(const Schedule& schedule) {
  const auto problems = check(schedule);
  REQUIRE(problems.size() == 1);
  return problems.front();
}

std::vector<Schedule> samples() {
  return {make("gpipe", 3, 4, 1),
          make("1f1b", 4, 6, 1),
          make("interleaved", 2, 5, 3),
          make("zb-h1", 3, 5, 1),
          make("zbv", 3, 6, 2)};
}

// Changes every action of every sample in turn; the check must refuse each.
void refuses_every(const std::function<void(std::vector<Action>& program, std::size_t index)>& change) {
  for (const Schedule& right : samples()) {
    REQUIRE(check(right).empty());
    for (std::size_t stage = 0; stage < right.programs.size(); ++stage) {
      for (std::size_t index = 0; index < right.programs[stage].size(); ++index) {
        Schedule wrong = right;
        change(wrong.programs[stage], index);
        INFO(right.name << " stage " << stage << " action " << index);
        REQUIRE_FALSE(check(wrong).empty());
      }
    }
  }
}

}  // namespace

TEST_CASE("check: one action less is refused") {
  refuses_every([](auto& program, std::size_t i) { program.erase(program.begin() + static_cast<long>(i)); });
}

TEST_CASE("check: one action twice is refused") {
  refuses_every([](auto& program, std::size_t i) {
    const Action again = program[i];
    program.insert(program.begin() + static_cast<long>(i), again);
  });
}

TEST_CASE("check: one other micro-batch is refused") {
  refuses_every([](auto& program, std::size_t i) { program[i].micro_batch ^= 1; });
}

TEST_CASE("check: one other kind is refused") {
  for (const ActionKind kind : {kF, kB, kI, kW})
    refuses_every([&](auto& program, std::size_t i) {
      program[i].kind = program[i].kind == kind ? (kind == kF ? kW : kF) : kind;
    });
}

TEST_CASE("check: a backward before its forward is refused") {
  refuses_every([](auto& program, std::size_t i) {
    const Action moved = program[i];
    if (moved.kind == kF) {
      program.erase(program.begin() + static_cast<long>(i));
      program.push_back(moved);  // behind its own backward
    } else {
      std::rotate(program.begin(),
                  program.begin() + static_cast<long>(i),
                  program.begin() + static_cast<long>(i) + 1);  // before its own forward
    }
  });
}

TEST_CASE("check: each refusal names stage, action and what is wrong") {
  CHECK(only_problem(schedule_of(2, {{{kF, 0, 0}, {kB, 0, 0}, {kF, 0, 1}}})) ==
        "stage 0, action 2 (0F1): its backward is missing: 0B1, or 0I1 and 0W1");
  CHECK(only_problem(schedule_of(2, {{{kF, 0, 0}, {kB, 0, 0}}})) ==
        "stage 0: 0F1 and its backward are missing");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kB, 0, 0}}, {}})) ==
        "stage 1: 1F0 and its backward are missing; stage 0, action 0 (0F0) has this micro-batch");
  CHECK(only_problem(schedule_of(1, {{{kB, 0, 0}}})) ==
        "stage 0, action 0 (0B0): its forward 0F0 is missing");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kI, 0, 0}}})) ==
        "stage 0, action 1 (0I0): its weight gradient 0W0 is missing");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kW, 0, 0}}})) ==
        "stage 0, action 1 (0W0): its input gradient 0I0 is missing");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kB, 0, 0}, {kW, 0, 0}}})) ==
        "stage 0, action 1 (0B0): whole backward beside a half of it at stage 0, action 2 (0W0); use B, or I "
        "and "
        "W");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kB, 0, 0}, {kB, 0, 0}}})) ==
        "stage 0, action 2 (0B0): runs a second time; the first is stage 0, action 1 (0B0)");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 0}, {kW, 0, 0}, {kI, 0, 0}}})) ==
        "stage 0, action 1 (0W0): comes before its input gradient, stage 0, action 2 (0I0)");
  CHECK(only_problem(schedule_of(1, {{{kI, 0, 0}, {kF, 0, 0}, {kW, 0, 0}}})) ==
        "stage 0, action 0 (0I0): comes before its forward, stage 0, action 1 (0F0)");
  CHECK(only_problem(schedule_of(1, {{{kF, 0, 3}}})) == "stage 0, action 0 (0F3): there are 1 micro-batches");
  CHECK(only_problem(schedule_of(1, {{{kF, 2, 0}}})) ==
        "stage 0, action 0 (F0 on chunk 2): a stage has 1 chunks");
}

TEST_CASE("check: messages that would overtake each other are refused at the cell that takes the wrong one") {
  const Schedule schedule = schedule_of(
      2,
      {{{kF, 0, 0}, {kF, 0, 1}, {kB, 0, 0}, {kB, 0, 1}}, {{kF, 0, 1}, {kF, 0, 0}, {kB, 0, 0}, {kB, 0, 1}}});
  CHECK(only_problem(schedule) ==
        "stage 1, action 0 (1F1): out of order: the next activation from stage 0 to stage 1 is that of stage "
        "0, "
        "action 0 (0F0); messages keep their order");
}

TEST_CASE("check: a deadlock is explained by its circle") {
  // Stage 0 wants the gradient of micro-batch 0 before it sends what stage 1 needs to make it.
  const Schedule two = schedule_of(
      2,
      {{{kF, 0, 0}, {kB, 0, 0}, {kF, 0, 1}, {kB, 0, 1}}, {{kF, 0, 0}, {kF, 0, 1}, {kB, 0, 0}, {kB, 0, 1}}});
  CHECK(only_problem(two) ==
        "deadlock: stage 0, action 1 (0B0) waits for 1B0, and stage 1, action 1 (1F1) waits for 0F1");
  // With two chunks a stage can wait for itself.
  const Schedule one{"test",
                     1,
                     StageMap::loop(1, 2),
                     {{{kF, 1, 0}, {kF, 0, 0}, {kI, 1, 0}, {kW, 1, 0}, {kI, 0, 0}, {kW, 0, 0}}}};
  CHECK(only_problem(one) == "deadlock: stage 0, action 0 (1F0) waits for 0F0");
}

TEST_CASE("check: a list of problems is short, whatever the schedule") {
  CHECK(check(schedule_of(1000000, {{{kF, 0, 0}}})).size() == kMaxProblems);
  CHECK(check(schedule_of(1, {std::vector<Action>(1000, {kF, 0, 0})})).size() == kMaxProblems);
  CHECK(check(Schedule{"test", 1, StageMap::loop(2, 1), {{}}}).size() == 1);
}

TEST_CASE("simulate: a schedule that is stuck breaks an invariant") {
  const Schedule schedule = schedule_of(
      2,
      {{{kF, 0, 0}, {kB, 0, 0}, {kF, 0, 1}, {kB, 0, 1}}, {{kF, 0, 0}, {kF, 0, 1}, {kB, 0, 0}, {kB, 0, 1}}});
  CHECK_THROWS_AS(simulate(schedule), CheckFailure);
}

namespace {

// A run with real queues, written without the module under test: a stage pops the head of the queue from its
// neighbour and is stuck for ever when that is not the message it needs.
class QueueRun {
 public:
  explicit QueueRun(const Schedule& schedule) : schedule_(schedule), next_(schedule.programs.size(), 0) {}

  bool ends_well() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < next_.size(); ++stage)
        while (next_[stage] < schedule_.programs[stage].size() && run(static_cast<int>(stage))) {
          ++next_[stage];
          moved = true;
        }
    }
    for (std::size_t stage = 0; stage < next_.size(); ++stage)
      if (next_[stage] < schedule_.programs[stage].size()) return false;
    return true;
  }

 private:
  using Message = std::pair<int, int>;  // for which virtual stage, micro-batch

  bool run(int stage) {
    const Action& action =
        schedule_.programs[static_cast<std::size_t>(stage)][next_[static_cast<std::size_t>(stage)]];
    const int here = schedule_.map.virtual_stage({stage, action.chunk});
    const int last = schedule_.map.num_virtual_stages() - 1;
    if (action.kind == kW) return done_.contains({here, action.micro_batch, 'G'});
    const bool forward = action.kind == kF;
    if (!forward && !done_.contains({here, action.micro_batch, 'F'})) return false;
    const int before = forward ? here - 1 : here + 1;
    const int after = forward ? here + 1 : here - 1;
    if (before >= 0 && before <= last) {
      auto& queue = queues_[{schedule_.map.site(before).stage, stage, forward}];
      if (schedule_.map.site(before).stage == stage) {
        if (!done_.contains({before, action.micro_batch, forward ? 'F' : 'G'})) return false;
      } else {
        if (queue.empty() || queue.front() != Message{here, action.micro_batch}) return false;
        queue.pop_front();
      }
    }
    if (after >= 0 && after <= last && schedule_.map.site(after).stage != stage)
      queues_[{stage, schedule_.map.site(after).stage, forward}].push_back({after, action.micro_batch});
    done_.insert({here, action.micro_batch, forward ? 'F' : 'G'});
    return true;
  }

  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  std::map<std::tuple<int, int, bool>, std::deque<Message>> queues_;
  std::set<std::tuple<int, int, char>> done_;
};

}  // namespace

TEST_CASE("check: agrees with a run over real queues on shuffled schedules") {
  const unsigned seed = 20240607;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  int accepted = 0, refused = 0;
  for (const Schedule& right :
       {make("1f1b", 2, 2, 1), make("zb-h1", 2, 2, 1), make("interleaved", 2, 2, 2), make("zbv", 2, 2, 2)}) {
    for (int round = 0; round < 4000; ++round) {
      Schedule shuffled = right;
      for (int swap = 0; swap <= round % 6; ++swap) {
        auto& program = shuffled.programs[random() % shuffled.programs.size()];
        const std::size_t at = random() % (program.size() - 1);
        std::swap(program[at], program[at + 1]);
      }
      const bool found = check(shuffled).empty();
      REQUIRE(found == QueueRun(shuffled).ends_well());
      ++(found ? accepted : refused);
    }
  }
  CHECK(accepted > 500);
  CHECK(refused > 500);
}
