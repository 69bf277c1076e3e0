#include "tests/train/parity.hpp"

#include <string>

using namespace llmtrain;
using namespace llmtrain::test;

TEST_CASE("data parallel: any number of ranks and micro-batches is one run, fp64", "[train][ranks]") {
  const std::string optimizer = GENERATE("{name: adamw, lr: 3.0e-3}", "{name: sgd, lr: 0.5}");
  const std::vector<std::string> overrides = {"optimizer=" + optimizer};
  const Outcome reference = train({1, 1}, overrides);
  CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
  for (const int ranks : {1, 2, 4})
    for (const int accumulation : {1, 2, 4}) {
      CAPTURE(optimizer, ranks, accumulation);
      check_equal(reference, train({ranks, accumulation}, overrides), 1e-10);
    }
}

TEST_CASE("data parallel: any number of ranks and micro-batches is one run, fp32", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "precision.compute=fp32", "optimizer.name=sgd", "optimizer.lr=0.1"};
  const Outcome reference = train({1, 1}, overrides);
  for (const int ranks : {2, 4})
    for (const int accumulation : {1, 4}) {
      CAPTURE(ranks, accumulation);
      check_equal(reference, train({ranks, accumulation}, overrides), 1e-5);
    }
}

TEST_CASE("data parallel: the same job twice gives the same bits", "[train][ranks]") {
  const std::string compute = GENERATE("fp32", "bf16");
  CAPTURE(compute);
  const Outcome once = train({2, 2}, {"precision.compute=" + compute});
  const Outcome again = train({2, 2}, {"precision.compute=" + compute});
  CHECK(largest_difference(once.tensors, again.tensors, 1e-30) == 0);
}

TEST_CASE("data parallel: another seed is another model", "[train][ranks]") {
  const Outcome a = train({2, 2}, {});
  const Outcome b = train({2, 2}, {"run.seed=8"});
  CHECK(largest_difference(a.tensors, b.tensors, 3e-2) > 0.1);
}
