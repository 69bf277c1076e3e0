// Runs whose communication is disturbed at random, against one that is not: a result that depends on who
// comes first would show.
#include <cstdlib>
#include <string_view>

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Seeds of each layout: a few every day, all in a long run.
int num_seeds() {
  const char* word = std::getenv("LLMTRAIN_TEST_LONG");
  return word != nullptr && std::string_view(word) == "1" ? 50 : 10;
}

// fp32: a sum in another order has other bits.
void check_undisturbed(const Layout& layout, int num_faults) {
  const std::vector<std::string> overrides = {
      "precision.compute=fp32", "train.duration=10 steps", "model.num_layers=4"};
  const Outcome reference = train(layout, overrides);
  for (int seed = 1; seed <= num_faults; ++seed) {
    CAPTURE(layout.dp, layout.tp, layout.sp, layout.zero, layout.method, layout.pp, layout.schedule, seed);
    auto disturbed = overrides;
    disturbed.push_back(fmt::format("faults=[{{kind: jitter, ms: 1, seed: {}}}]", seed));
    const Outcome other = train(layout, disturbed);
    CHECK(largest_difference(reference.tensors, other.tensors, 1e-30) == 0);
    for (std::size_t i = 0; i < reference.steps.size(); ++i) {
      CHECK(reference.steps[i].loss == other.steps[i].loss);
      CHECK(reference.steps[i].grad_norm == other.steps[i].grad_norm);
    }
  }
}

}  // namespace

TEST_CASE("jitter: random delays in communication change no bit", "[train][ranks]") {
  check_undisturbed({.dp = 2, .accumulation = 2, .tp = 2, .shard_sequence = true, .overlap_chunks = 3},
                    num_seeds());
  check_undisturbed({.dp = 4, .accumulation = 2, .zero = 2, .dp_shard = 2}, num_seeds());
  check_undisturbed({.dp = 2, .accumulation = 2, .tp = 2, .zero = 3}, num_seeds());
  check_undisturbed({.dp = 2, .accumulation = 2, .sp = 2, .method = "ring"}, num_seeds());
  check_undisturbed({.accumulation = 2, .sp = 4, .method = "ulysses"}, num_seeds());
}

TEST_CASE("jitter: nor do they in a pipeline, whose messages have queues of their own", "[train][ranks]") {
  check_undisturbed({.accumulation = 4, .tp = 2, .pp = 2, .schedule = "interleaved"}, num_seeds());
  check_undisturbed({.dp = 2, .accumulation = 4, .zero = 2, .pp = 2, .schedule = "zbv"}, num_seeds());
}
