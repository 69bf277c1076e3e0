// State that is sharded over data-parallel ranks, against one rank that holds everything.
#include <string>
#include <vector>

#include "llmtrain/job/worker_exit.hpp"

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

const std::string kAdamW = "optimizer={name: adamw, lr: 3.0e-3, clip_grad: 0.5}";
const std::string kSgd = "optimizer={name: sgd, lr: 0.5, clip_grad: 0.5}";
constexpr int kStages[] = {0, 1, 2, 3};

void check_stages(const std::vector<std::string>& overrides,
                  const std::vector<Layout>& layouts,
                  double tolerance) {
  const Outcome reference = train({}, overrides);
  CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
  CHECK(*reference.steps.front().grad_norm > 0.5);  // clipping has work to do
  for (Layout layout : layouts)
    for (const int stage : kStages) {
      layout.zero = stage;
      CAPTURE(overrides, layout.dp, layout.accumulation, layout.tp, layout.shard_sequence, stage);
      check_equal(reference, train(layout, overrides), tolerance);
    }
}

JobOptions job_on(const TempDir& dir, const Layout& layout, const std::string& compute = "fp64") {
  return {.yaml = kTinyJob,
          .overrides = {fmt::format("parallelism={{dp: {}, tp: {}, zero_stage: {}, dp_shard: {}}}",
                                    layout.dp,
                                    layout.tp,
                                    layout.zero,
                                    layout.dp_shard == 0 ? "auto" : std::to_string(layout.dp_shard)),
                        "precision.compute=" + compute},
          .processes = layout.ranks(),
          .run_dir = dir.path(),
          .resume_path = {}};
}

// One step, a stop, and the rest on another layout.
std::map<std::string, std::vector<double>> changed_after_one_step(const Layout& from, const Layout& to) {
  const TempDir dir;
  JobOptions first = job_on(dir, from);
  first.stop_after_one_step = true;
  for (const int code : run_job(first).codes) REQUIRE(code == to_int(WorkerExit::kStoppedSaved));
  JobOptions second = job_on(dir, to);
  second.resume_path = step_dir(dir.path(), 1);
  second.incarnation = 1;
  for (const int code : run_job(second).codes) REQUIRE(code == 0);
  return read_tensors(step_dir(dir.path(), 10));
}

}  // namespace

TEST_CASE("zero: every stage on every layout is one run, fp64", "[train][ranks]") {
  check_stages({kAdamW},
               {{.dp = 2, .accumulation = 1},
                {.dp = 2, .accumulation = 4},
                {.dp = 4, .accumulation = 1},
                {.dp = 4, .accumulation = 4},
                {.dp = 2, .accumulation = 1, .tp = 2},
                {.dp = 2, .accumulation = 4, .tp = 2, .shard_sequence = true},
                {.dp = 4, .accumulation = 4, .tp = 2}},
               1e-10);
}

TEST_CASE("zero: plain SGD, which forgives nothing, is one run too", "[train][ranks]") {
  check_stages({kSgd}, {{.dp = 2, .accumulation = 4}, {.dp = 4, .tp = 2}}, 1e-10);
}

TEST_CASE("zero: tied embeddings, learned positions, biases and shared heads", "[train][ranks]") {
  for (const char* model : {"model={family: qwen2, tie_embeddings: true}",
                            "model={family: gpt2, num_kv_heads: 4}",
                            "model={family: qwen3, head_dim: 16, num_kv_heads: 1}"})
    check_stages(
        {kAdamW, model}, {{.dp = 4, .accumulation = 2}, {.dp = 2, .accumulation = 2, .tp = 4}}, 1e-10);
}

TEST_CASE("zero: an odd number of layers, and one", "[train][ranks]") {
  for (const char* layers : {"model.num_layers=1", "model.num_layers=3"})
    for (const char* tied : {"model.tie_embeddings=false", "model.tie_embeddings=true"})
      check_stages({kAdamW, layers, tied}, {{.dp = 2, .accumulation = 2}}, 1e-10);
}

TEST_CASE("zero: more ranks than rows, so that some own nothing of a parameter", "[train][ranks]") {
  check_stages({kAdamW, "model.vocab_size=5"}, {{.dp = 8, .accumulation = 2}}, 1e-10);
}

TEST_CASE("zero: hybrid shards are one run", "[train][ranks]") {
  check_stages({kAdamW},
               {{.dp = 4, .accumulation = 2, .dp_shard = 2},
                {.dp = 4, .accumulation = 2, .tp = 2, .dp_shard = 2},
                {.dp = 8, .accumulation = 1, .dp_shard = 4}},
               1e-10);
}

// The ranks that share a sequence hold the same parameters: state is spread over them too.
TEST_CASE("zero: beside sequences that are cut over ranks", "[train][ranks]") {
  check_stages({kAdamW},
               {{.accumulation = 2, .sp = 4},
                {.dp = 2, .accumulation = 2, .sp = 2, .method = "ulysses"},
                {.dp = 2, .tp = 2, .sp = 2},
                {.dp = 2, .accumulation = 2, .dp_shard = 2, .sp = 2}},
               1e-10);
}

TEST_CASE("zero: fp32 and bf16 are one run within their rounding", "[train][ranks]") {
  check_stages({"precision.compute=fp32", kSgd}, {{.dp = 2, .accumulation = 4}, {.dp = 2, .tp = 2}}, 2e-5);
  // Masters move by less than a bf16 weight can show, so single weights round apart by 2^-8.
  check_stages({"precision.compute=bf16", kSgd}, {{.dp = 4, .accumulation = 2}}, 2e-2);
}

TEST_CASE("zero: under bf16 every stage computes what stage 0 computes, to the bit", "[train][ranks]") {
  const std::vector<std::string> overrides = {"precision.compute=bf16",
                                              "optimizer={name: sgd, lr: 0.1, clip_grad: 0}"};
  const Outcome reference = train({.dp = 4}, overrides);
  for (const int stage : kStages) {
    CAPTURE(stage);
    const Outcome other = train({.dp = 4, .zero = stage}, overrides);
    CHECK(largest_difference(reference.tensors, other.tensors, 1e-30) == 0);
  }
}

// Each rank's gradient is rounded by 2^-9 at most, and so is their sum.
TEST_CASE("zero: gradients that travel in bf16 differ by their rounding, on every stage", "[train][ranks]") {
  const std::vector<std::string> kept = {"precision={compute: fp32, reduce: fp32}", kSgd};
  const std::vector<std::string> narrow = {"precision={compute: fp32, reduce: bf16}", kSgd};
  const Outcome reference = train({.dp = 4}, kept);
  for (const int stage : kStages) {
    CAPTURE(stage);
    const Layout layout{.dp = 4, .zero = stage};
    const Outcome once = train(layout, narrow);
    check_equal(reference, once, 1e-2);
    CHECK(largest_difference(reference.tensors, once.tensors, 3e-2) > 1e-5);
    CHECK(largest_difference(once.tensors, train(layout, narrow).tensors, 1e-30) == 0);
  }
}

TEST_CASE("zero: blocks that are computed again change no bit, on every stage", "[train][ranks]") {
  for (const int stage : kStages) {
    const Layout layout{.dp = 2, .accumulation = 2, .tp = 2, .zero = stage};
    const Outcome kept = train(layout, {"precision.compute=bf16"});
    for (const char* mode : {"memory.recompute=selective", "memory.recompute=full"}) {
      CAPTURE(stage, mode);
      const Outcome again = train(layout, {"precision.compute=bf16", mode});
      CHECK(largest_difference(kept.tensors, again.tensors, 1e-30) == 0);
      CHECK(kept.steps.back().loss == again.steps.back().loss);
    }
  }
}

TEST_CASE("zero: the same job twice gives the same bits", "[train][ranks]") {
  for (const int stage : kStages)
    for (const char* compute : {"precision.compute=fp32", "precision.compute=bf16"}) {
      CAPTURE(stage, compute);
      const Layout layout{.dp = 2, .accumulation = 2, .tp = 2, .zero = stage};
      CHECK(largest_difference(train(layout, {compute}).tensors, train(layout, {compute}).tensors, 1e-30) ==
            0);
    }
}

TEST_CASE("zero: the logged norm is that before clipping, the update that after it", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "optimizer={name: sgd, lr: 1.0, clip_grad: 0.1, weight_decay: 0}",
      "lr_schedule={style: constant, warmup: 0}"};
  for (const int stage : kStages) {
    const TempDir dir;
    JobOptions options = job_on(dir, {.dp = 2, .zero = stage});
    options.overrides.insert(options.overrides.end(), overrides.begin(), overrides.end());
    options.overrides.push_back("checkpoint.interval=1 steps");
    const JobResult result = run_job(options);
    for (const int code : result.codes) REQUIRE(code == 0);
    const auto before = read_tensors(step_dir(dir.path(), 0));
    const auto after = read_tensors(step_dir(dir.path(), 1));
    double squares = 0;
    for (const auto& [name, values] : before)
      for (std::size_t i = 0; i < values.size(); ++i)
        squares += (after.at(name)[i] - values[i]) * (after.at(name)[i] - values[i]);
    CAPTURE(stage);
    CHECK(std::sqrt(squares) == Approx(0.1).epsilon(1e-4));
    CHECK(*result.steps.front().grad_norm > 0.2);
  }
}

TEST_CASE("zero: a number that is not finite on one rank is skipped by all", "[train][ranks]") {
  for (const int stage : kStages) {
    CAPTURE(stage);
    const TempDir dir;
    JobOptions options = job_on(dir, {.dp = 4, .zero = stage});
    options.overrides.push_back("faults=[{kind: nan, rank: 3, step: 4, point: backward}]");
    const JobResult result = run_job(options);
    for (const int code : result.codes) REQUIRE(code == 0);
    CHECK(result.steps.back().skipped == 1);
    CHECK_FALSE(result.steps[3].loss.has_value());
    CHECK(result.steps[4].loss.has_value());
  }
}

TEST_CASE("zero: stopping after every step changes no bit", "[train][ranks]") {
  for (const int stage : kStages)
    for (const char* compute : {"fp32", "bf16"}) {
      CAPTURE(stage, compute);
      const TempDir straight;
      const TempDir stopped;
      const Layout layout{.dp = 2, .tp = 2, .zero = stage};
      run_job(job_on(straight, layout, compute));
      JobOptions options = job_on(stopped, layout, compute);
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
}

TEST_CASE("zero: stop and resume on any stage and layout goes on with the same numbers", "[train][ranks]") {
  const TempDir straight;
  run_job(job_on(straight, {}));
  const auto expected = read_tensors(step_dir(straight.path(), 10));
  for (const int stage : kStages) {
    if (stage == 0) continue;
    const Layout sharded{.dp = 2, .tp = 2, .zero = stage};
    for (const Layout& other : {Layout{},
                                Layout{.dp = 4, .zero = 1},
                                Layout{.dp = 2},
                                Layout{.tp = 4},
                                Layout{.dp = 4, .zero = 2, .dp_shard = 2}}) {
      CAPTURE(stage, other.dp, other.tp, other.zero);
      CHECK(largest_difference(expected, changed_after_one_step(sharded, other), 3e-2) < 1e-10);
      CHECK(largest_difference(expected, changed_after_one_step(other, sharded), 3e-2) < 1e-10);
    }
  }
}

TEST_CASE("zero: evaluation counts every sample once, also where a rank has none", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "data.valid=[{path: synthetic}]", "train.eval_interval=5 steps", "train.eval_steps=1"};
  const auto evaluations = [](const Outcome& outcome) {
    std::vector<EvalReport> reports;
    for (const Event& event : outcome.events)
      if (const auto* report = std::get_if<EvalReport>(&event.body)) reports.push_back(*report);
    return reports;
  };
  const auto expected = evaluations(train({}, overrides));
  REQUIRE(expected.size() == 2);
  for (const int stage : kStages) {
    const auto found = evaluations(train({.dp = 4, .zero = stage}, overrides));
    REQUIRE(found.size() == 2);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CAPTURE(stage, i);
      CHECK(found[i].tokens == expected[i].tokens);
      CHECK(relative(expected[i].loss, found[i].loss) < 1e-10);
    }
  }
}
