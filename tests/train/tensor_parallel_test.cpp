#include <string>
#include <vector>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/worker_exit.hpp"

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

struct FamilyJob {
  std::string name;
  std::vector<std::string> overrides;
};

// Two key/value heads: four ranks must share them. 61 tokens: no degree divides them.
std::vector<FamilyJob> families() {
  return {{"llama", {}},
          {"gpt2", {"model={family: gpt2, num_kv_heads: 4}"}},
          {"mistral", {"model={family: mistral, head_dim: 16}"}},
          {"qwen2", {"model={family: qwen2, tie_embeddings: true}"}},
          {"qwen3", {"model={family: qwen3, head_dim: 16, num_kv_heads: 1}"}}};
}

std::vector<std::string> operator+(std::vector<std::string> list, const std::string& more) {
  list.push_back(more);
  return list;
}

void check_layouts(const FamilyJob& family, const std::string& setting, double tolerance) {
  const std::vector<std::string> overrides = family.overrides + setting;
  const Outcome reference = train({}, overrides);
  CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
  for (const int tp : {2, 4})
    for (const int dp : {1, 2})
      for (const bool shard : {false, true}) {
        CAPTURE(family.name, setting, tp, dp, shard);
        const Layout layout{.dp = dp, .accumulation = 2 / dp, .tp = tp, .shard_sequence = shard};
        check_equal(reference, train(layout, overrides), tolerance);
      }
}

JobOptions job_on(const TempDir& dir, int tp, int dp) {
  return {.yaml = kTinyJob,
          .overrides = {fmt::format("parallelism={{dp: {}, tp: {}}}", dp, tp)},
          .processes = tp * dp,
          .run_dir = dir.path(),
          .resume_path = {}};
}

}  // namespace

TEST_CASE("tensor parallel: every family is one run on every layout, fp64", "[train][ranks]") {
  for (const FamilyJob& family : families())
    check_layouts(family, "optimizer={name: adamw, lr: 3.0e-3}", 1e-10);
}

TEST_CASE("tensor parallel: plain SGD, which forgives nothing, is one run too", "[train][ranks]") {
  check_layouts(families().front(), "optimizer={name: sgd, lr: 0.5}", 1e-10);
}

TEST_CASE("tensor parallel: fp32 is one run within its rounding", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "precision.compute=fp32", "optimizer.name=sgd", "optimizer.lr=0.1"};
  const Outcome reference = train({}, overrides);
  check_equal(reference, train({.dp = 2, .tp = 2}, overrides), 1e-5);
}

// Chunks that do not divide the tokens, one for each token, and more than there are.
TEST_CASE("tensor parallel: overlap in any number of chunks is one run, fp64", "[train][ranks]") {
  const std::vector<std::string> biased = {"model={family: gpt2, num_kv_heads: 4}"};
  const Outcome reference = train({}, biased);
  for (const bool shard : {false, true})
    for (const int chunks : {2, 3, 7, 64}) {
      CAPTURE(shard, chunks);
      check_equal(
          reference,
          train({.accumulation = 2, .tp = 4, .shard_sequence = shard, .overlap_chunks = chunks}, biased),
          1e-10);
    }
  for (const std::string recompute : {"selective", "full"})
    check_equal(
        reference,
        train(
            {.accumulation = 2, .tp = 2, .shard_sequence = true, .recompute = recompute, .overlap_chunks = 3},
            biased),
        1e-10);
}

TEST_CASE("tensor parallel: the same job twice gives the same bits", "[train][ranks]") {
  const std::string compute = GENERATE("fp32", "bf16");
  const Outcome once = train({.dp = 2, .accumulation = 2, .tp = 2}, {"precision.compute=" + compute});
  const Outcome again = train({.dp = 2, .accumulation = 2, .tp = 2}, {"precision.compute=" + compute});
  CHECK(largest_difference(once.tensors, again.tensors, 1e-30) == 0);
}

// A norm that counts replicas, or a loss of padded rows, would show here before anything is learnt.
TEST_CASE("tensor parallel: a model that knows nothing loses log(vocabulary)", "[train][ranks]") {
  for (const int tp : {1, 2, 4}) {
    const Outcome outcome = train({.tp = tp}, {"model.init_std=1.0e-9"});
    CHECK(*outcome.steps.front().loss == Approx(std::log(61.0)).epsilon(1e-9));
  }
}

TEST_CASE("tensor parallel: clipping scales the whole model alike", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "optimizer={name: sgd, lr: 1.0, clip_grad: 0.01, weight_decay: 0}", "train.duration=10 steps"};
  check_equal(train({}, overrides), train({.dp = 2, .tp = 4}, overrides), 1e-10);
}

TEST_CASE("tensor parallel: a number that is not finite on one rank is skipped by all", "[train][ranks]") {
  const TempDir dir;
  JobOptions options = job_on(dir, 2, 2);
  options.overrides.push_back("faults=[{kind: nan, rank: 3, step: 4, point: backward}]");
  const JobResult result = run_job(options);
  for (const int code : result.codes) REQUIRE(code == 0);
  CHECK(result.steps.back().skipped == 1);
  CHECK_FALSE(result.steps[3].loss.has_value());
  CHECK(result.steps[4].loss.has_value());
}

TEST_CASE("tensor parallel: stop and resume on any layout goes on with the same numbers", "[train][ranks]") {
  const TempDir straight;
  run_job(job_on(straight, 1, 1));
  const auto expected = read_tensors(step_dir(straight.path(), 10));
  struct Change {
    int from_tp, to_tp, to_dp;
  };
  for (const Change& change : {Change{2, 1, 1}, Change{1, 2, 1}, Change{4, 2, 2}, Change{2, 4, 1}}) {
    CAPTURE(change.from_tp, change.to_tp, change.to_dp);
    const TempDir dir;
    JobOptions first = job_on(dir, change.from_tp, 1);
    first.stop_after_one_step = true;
    for (const int code : run_job(first).codes) REQUIRE(code == to_int(WorkerExit::kStoppedSaved));
    JobOptions second = job_on(dir, change.to_tp, change.to_dp);
    second.resume_path = step_dir(dir.path(), 1);
    second.incarnation = 1;
    for (const int code : run_job(second).codes) REQUIRE(code == 0);
    CHECK(largest_difference(expected, read_tensors(step_dir(dir.path(), 10)), 3e-2) < 1e-10);
  }
}

TEST_CASE("tensor parallel: a checkpoint goes through other layouts bit for bit", "[train][ranks]") {
  const TempDir dir;
  JobOptions options = job_on(dir, 4, 1);
  options.overrides.push_back("precision.compute=bf16");
  options.stop_after_one_step = true;
  run_job(options);
  const auto saved = read_tensors(step_dir(dir.path(), 1));
  // No step is left to be made: what is loaded is saved again under another layout's cuts.
  for (const int tp : {2, 1, 4}) {
    const TempDir copy;
    JobOptions next = job_on(copy, tp, 1);
    next.overrides.push_back("precision.compute=bf16");
    next.overrides.push_back("optimizer.lr=1.0e-30");
    next.overrides.push_back("train.duration=2 steps");
    next.resume_path = step_dir(dir.path(), 1);
    for (const int code : run_job(next).codes) REQUIRE(code == 0);
    const auto again = read_tensors(step_dir(copy.path(), 2));
    for (const auto& [name, values] : saved)
      if (name.rfind("exp_avg", 0) != 0) CHECK(values == again.at(name));
  }
}

TEST_CASE("tensor parallel: stopping after every step changes no bit", "[train][ranks]") {
  const TempDir straight;
  const TempDir stopped;
  run_job(job_on(straight, 2, 2));
  JobOptions options = job_on(stopped, 2, 2);
  options.stop_after_one_step = true;
  for (int step = 1; step <= 10; ++step) {
    for (const int code : run_job(options).codes)
      REQUIRE(code == (step < 10 ? to_int(WorkerExit::kStoppedSaved) : 0));
    options.resume_path = step_dir(stopped.path(), step);
    options.incarnation += 1;
  }
  CHECK(largest_difference(read_tensors(step_dir(straight.path(), 10)),
                           read_tensors(step_dir(stopped.path(), 10)),
                           1e-30) == 0);
}
