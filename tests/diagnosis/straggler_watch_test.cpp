#include "llmtrain/diagnosis/straggler_watch.hpp"

#include <functional>
#include <random>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

struct Times {
  double compute_ms = 100;
  double data_ms = 0;
  double sending_ms = 5;
  double hidden_ms = 0;  // of it, while the rank computes
};

// A job whose ranks end each step together, seen after every step; `at(rank, step)` is what a step costs.
class Job {
 public:
  Job(const MeshShape& mesh, const StragglerOptions& options, int per_node = 2)
      : mesh_(mesh),
        per_node_(per_node),
        watch_(options),
        costs_(static_cast<std::size_t>(mesh.world_size())) {
    watch_.start(mesh);
  }

  void restart() {
    watch_.start(mesh_);
    costs_.assign(costs_.size(), CostNote{});
    step_ = 0;
  }

  std::vector<StragglerChange> run(int steps, const std::function<Times(int, int)>& at) {
    std::vector<StragglerChange> changes;
    for (int i = 0; i < steps; ++i) {
      ++step_;
      double longest = 0;
      for (int rank = 0; rank < mesh_.world_size(); ++rank) {
        const Times times = at(rank, step_);
        const double exposed = std::max(20.0, times.sending_ms - times.hidden_ms);
        longest = std::max(longest, times.compute_ms + times.data_ms + exposed);
      }
      for (int rank = 0; rank < mesh_.world_size(); ++rank) {
        const Times times = at(rank, step_);
        CostNote& costs = costs_[static_cast<std::size_t>(rank)];
        costs.step = step_;
        costs.total_ms += longest;
        costs.compute_ms += times.compute_ms;
        costs.data_ms += times.data_ms;
        costs.sending_ms += times.sending_ms;
        RankNote note;
        note.rank = rank;
        note.node = rank / per_node_;
        note.costs = costs;
        for (StragglerChange& change : watch_.sample(note)) changes.push_back(std::move(change));
      }
    }
    return changes;
  }

 private:
  MeshShape mesh_;
  int per_node_;
  StragglerWatch watch_;
  std::vector<CostNote> costs_;
  int step_ = 0;
};

}  // namespace

TEST_CASE("straggler watch: the slow rank and its cause are named within 60 steps, once", "[diagnosis]") {
  const auto cause =
      GENERATE(StragglerCause::kCompute, StragglerCause::kData, StragglerCause::kCommunication);
  const int before = GENERATE(0, 7, 10, 100);
  INFO("cause " << to_string(cause) << ", healthy steps before it: " << before);
  Job job({.dp = 4}, {});
  CHECK(job.run(before, [](int, int) { return Times{}; }).empty());
  const auto slow = [&](int rank, int) {
    Times times;
    if (rank != 2) return times;
    if (cause == StragglerCause::kCompute) times.compute_ms *= 2;
    if (cause == StragglerCause::kData) times.data_ms = 70;
    if (cause == StragglerCause::kCommunication) times.sending_ms = 60;
    return times;
  };
  const auto found = job.run(60, slow);
  REQUIRE(found.size() == 1);
  CHECK_FALSE(found[0].over);
  CHECK(found[0].ranks == std::vector{2});
  CHECK(found[0].node == 1);
  CHECK(found[0].cause == cause);
  CHECK(found[0].ms - found[0].peers_ms > 50);
  CHECK(job.run(200, slow).empty());  // nothing new

  const auto over = job.run(60, [](int, int) { return Times{}; });
  REQUIRE(over.size() == 1);
  CHECK(over[0].over);
  CHECK(over[0].ranks == std::vector{2});
  CHECK(over[0].cause == cause);
}

TEST_CASE("straggler watch: of two ranks the slower one is it", "[diagnosis]") {
  Job job({.dp = 2}, {}, 1);
  const auto found =
      job.run(60, [](int rank, int) { return Times{.compute_ms = rank == 1 ? 200.0 : 100.0}; });
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{1});
}

TEST_CASE("straggler watch: all ranks of a slow link are one finding", "[diagnosis]") {
  Job job({.dp = 2, .tp = 2}, {});
  const auto found = job.run(60, [](int rank, int) { return Times{.sending_ms = rank >= 2 ? 400.0 : 50.0}; });
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{2, 3});
  CHECK(found[0].node == 1);
  CHECK(found[0].cause == StragglerCause::kCommunication);
}

TEST_CASE("straggler watch: who sends to a slow rank is not taken for a slow link", "[diagnosis]") {
  Job job({.dp = 4}, {});
  const auto found = job.run(100, [](int rank, int) {
    return Times{.compute_ms = rank == 2 ? 300.0 : 100.0, .sending_ms = rank == 1 ? 250.0 : 5.0};
  });
  REQUIRE(found.size() == 1);
  CHECK(found[0].ranks == std::vector{2});
  CHECK(found[0].cause == StragglerCause::kCompute);
}

TEST_CASE("straggler watch: a slow link that nobody waits for is none", "[diagnosis]") {
  Job job({.dp = 4}, {});
  CHECK(
      job.run(200, [](int rank, int) { return Times{.sending_ms = rank >= 2 ? 90.0 : 5.0, .hidden_ms = 90}; })
          .empty());
}

TEST_CASE("straggler watch: a stage that is heavier by design is none", "[diagnosis]") {
  const auto heavier_stage = [](int rank, int) { return Times{.compute_ms = rank >= 2 ? 300.0 : 100.0}; };
  CHECK(Job({.pp = 2, .dp = 2}, {}).run(200, heavier_stage).empty());
  // The same times are a finding where all do the same work.
  CHECK_FALSE(Job({.dp = 4}, {}).run(200, heavier_stage).empty());
}

TEST_CASE("straggler watch: noise, a single slow window and a rank alone are none", "[diagnosis]") {
  std::mt19937 random(GENERATE(1, 2, 3));
  std::uniform_real_distribution<double> noise(50, 150);
  for (const int dp : {2, 4, 64}) {
    constexpr int kSteps = 300;
    std::vector<double> drawn(static_cast<std::size_t>(dp * (kSteps + 1)));
    for (double& ms : drawn) ms = noise(random);
    Job job({.dp = dp}, {});
    CHECK(job.run(kSteps,
                  [&](int rank, int step) {
                    return Times{.compute_ms = drawn[static_cast<std::size_t>(step * dp + rank)]};
                  })
              .empty());
  }
  Job job({.dp = 4}, {});
  CHECK(job.run(300,
                [](int rank, int step) {
                  return Times{.compute_ms = rank == 1 && step > 100 && step < 112 ? 1000.0 : 100.0};
                })
            .empty());
  Job alone({.pp = 4}, {});
  CHECK(alone.run(200, [](int rank, int) { return Times{.compute_ms = 100.0 * (rank + 1)}; }).empty());
}

TEST_CASE("straggler watch: a restart forgets, and ranks of another job are passed over", "[diagnosis]") {
  StragglerWatch watch({});
  watch.start({.dp = 2});
  RankNote note;
  note.rank = 7;
  note.costs = CostNote{.step = 100};
  CHECK(watch.sample(note).empty());
  note.rank = 0;
  note.costs.reset();
  CHECK(watch.sample(note).empty());

  Job job({.dp = 2}, {});
  const auto slow = [](int rank, int) { return Times{.compute_ms = rank == 1 ? 300.0 : 100.0}; };
  CHECK(job.run(25, slow).empty());
  job.restart();
  CHECK(job.run(25, slow).empty());
  CHECK(job.run(25, slow).size() == 1);
}
