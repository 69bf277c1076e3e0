#include "llmtrain/monitor/recent_steps.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

Event step_at(double time, std::int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 1.0 / static_cast<double>(step);
  return {time, 3, report};
}

std::vector<std::int64_t> numbers_of(const RecentSteps& steps) {
  const auto events = read_recent_steps(steps.text());
  REQUIRE(events.ok());
  std::vector<std::int64_t> numbers;
  for (const Event& event : *events) numbers.push_back(std::get<StepReport>(event.body).step);
  return numbers;
}

}  // namespace

TEST_CASE("recent steps: they come back as they were said; other events are passed over", "[monitor]") {
  RecentSteps steps;
  CHECK(steps.text().empty());
  steps.saw(step_at(10, 7));
  steps.saw({10.5, 3, StopRequested{"SIGTERM"}});
  steps.saw(step_at(11, 8));
  const auto events = read_recent_steps(steps.text());
  REQUIRE(events.ok());
  REQUIRE(events->size() == 2);
  CHECK(to_json_line(events->at(0)) == to_json_line(step_at(10, 7)));
  CHECK(to_json_line(events->at(1)) == to_json_line(step_at(11, 8)));
}

TEST_CASE("recent steps: old ones go, by age and by number", "[monitor]") {
  RecentSteps steps;
  steps.saw(step_at(10, 1));
  steps.saw(step_at(69, 2));
  steps.saw(step_at(70.5, 3));
  CHECK(numbers_of(steps) == std::vector<std::int64_t>{2, 3});
  for (std::int64_t step = 4; step < 5000; ++step) steps.saw(step_at(71, step));
  CHECK(numbers_of(steps).size() == RecentSteps::kMost);
  CHECK(numbers_of(steps).back() == 4999);
  CHECK(steps.text().size() < RecentSteps::kMaxBytes);
}

TEST_CASE("recent steps: what is no step is refused", "[monitor]") {
  CHECK_FALSE(read_recent_steps("{}\n").ok());
  CHECK_FALSE(read_recent_steps(to_json_line({1, 2, StopRequested{"SIGTERM"}})).ok());
  CHECK(read_recent_steps(to_json_line(step_at(1, 2))).ok());  // the last line needs no end
}
