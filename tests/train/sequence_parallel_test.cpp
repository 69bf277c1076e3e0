#include <string>
#include <vector>

#include "llmtrain/job/worker_exit.hpp"

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Grouped heads with rotary positions, learned positions, and norms inside heads.
const std::vector<std::string> kFamilies = {
    "model={family: llama}", "model={family: gpt2, num_kv_heads: 4}", "model={family: qwen3, head_dim: 16}"};

void check_layout(const Outcome& reference, const Layout& layout, const std::vector<std::string>& overrides) {
  CAPTURE(layout.method, layout.sp, layout.dp, layout.tp, layout.accumulation, layout.shard_sequence);
  check_equal(reference, train(layout, overrides), 1e-10);
}

JobOptions job_on(const TempDir& dir, const std::string& parallelism, int ranks) {
  return {.yaml = kTinyJob,
          .overrides = {"parallelism=" + parallelism},
          .processes = ranks,
          .run_dir = dir.path(),
          .resume_path = {}};
}

std::vector<EvalReport> evaluations(const Outcome& outcome) {
  std::vector<EvalReport> list;
  for (const Event& event : outcome.events)
    if (const auto* report = std::get_if<EvalReport>(&event.body)) list.push_back(*report);
  return list;
}

}  // namespace

TEST_CASE("sequence parallel: ring is one run on every layout, fp64", "[train][ranks]") {
  for (const std::string& family : kFamilies) {
    CAPTURE(family);
    const std::vector<std::string> overrides = {family, "optimizer={name: adamw, lr: 3.0e-3}"};
    const Outcome reference = train({}, overrides);
    CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
    for (const int sp : {2, 4})
      for (const int dp : {1, 2})
        for (const int tp : {1, 2})
          check_layout(reference, {.dp = dp, .accumulation = 2 / dp, .tp = tp, .sp = sp}, overrides);
    check_layout(reference, {.accumulation = 2, .tp = 2, .shard_sequence = true, .sp = 2}, overrides);
  }
}

TEST_CASE("sequence parallel: ulysses and allgather are one run too, fp64", "[train][ranks]") {
  for (const std::string& family : kFamilies) {
    CAPTURE(family);
    const std::vector<std::string> overrides = {family, "optimizer={name: adamw, lr: 3.0e-3}"};
    const Outcome reference = train({}, overrides);
    for (const char* method : {"ulysses", "allgather"})
      for (const Layout& layout : {Layout{.accumulation = 2, .sp = 2},
                                   Layout{.accumulation = 2, .sp = 4},
                                   Layout{.dp = 2, .tp = 2, .sp = 2},
                                   Layout{.tp = 2, .shard_sequence = true, .sp = 2}}) {
        Layout cut = layout;
        cut.method = method;
        check_layout(reference, cut, overrides);
      }
  }
}

// Synthetic documents are 16 to 271 tokens long: many samples of 96 hold the end of one.
TEST_CASE("sequence parallel: documents are masked on every layout alike", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "data.seq_length=96", "data.document_mask=true", "optimizer={name: adamw, lr: 3.0e-3}"};
  const Outcome reference = train({}, overrides);
  const Outcome unmasked = train({}, {overrides[0], overrides[2]});
  CHECK(relative(*reference.steps.back().loss, *unmasked.steps.back().loss) > 1e-6);
  for (const char* method : {"ring", "ulysses", "allgather"}) {
    check_layout(reference, {.accumulation = 2, .sp = 4, .method = method}, overrides);
    check_layout(reference, {.dp = 2, .tp = 2, .sp = 2, .method = method}, overrides);
  }
  check_layout(reference, {.dp = 2, .accumulation = 4, .sp = 2, .pp = 2, .schedule = "zb-h1"}, overrides);
}

TEST_CASE("sequence parallel: plain SGD, which forgives nothing, is one run too", "[train][ranks]") {
  const std::vector<std::string> overrides = {"optimizer={name: sgd, lr: 0.5}"};
  const Outcome reference = train({}, overrides);
  for (const char* method : {"ring", "ulysses", "allgather"})
    check_layout(reference, {.dp = 2, .tp = 2, .sp = 2, .method = method}, overrides);
}

TEST_CASE("sequence parallel: evaluation counts every token once", "[train][ranks]") {
  const std::vector<std::string> overrides = {
      "data.valid=[{path: synthetic}]", "train.eval_interval=5 steps", "train.eval_steps=2"};
  const std::vector<EvalReport> expected = evaluations(train({}, overrides));
  REQUIRE(expected.size() == 2);
  for (const char* method : {"ring", "ulysses", "allgather"}) {
    CAPTURE(method);
    const auto found = evaluations(train({.dp = 2, .sp = 4, .method = method}, overrides));
    REQUIRE(found.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(found[i].tokens == expected[i].tokens);
      CHECK(relative(expected[i].loss, found[i].loss) <= 1e-10);
    }
  }
}

TEST_CASE("sequence parallel: the same job twice gives the same bits", "[train][ranks]") {
  const std::string method = GENERATE("ring", "ulysses", "allgather");
  const Layout layout{.dp = 2, .accumulation = 2, .sp = 2, .method = method};
  const Outcome once = train(layout, {"precision.compute=bf16"});
  const Outcome again = train(layout, {"precision.compute=bf16"});
  CHECK(largest_difference(once.tensors, again.tensors, 1e-30) == 0);
}

TEST_CASE("sequence parallel: ranks that are late change no bit", "[train][ranks]") {
  const std::string method = GENERATE("ring", "ulysses", "allgather");
  const Layout layout{.dp = 2, .accumulation = 2, .sp = 4, .method = method};
  const Outcome once = train(layout, {});
  const Outcome late = train(layout,
                             {"faults=[{kind: sleep, ms: 5, rank: 1, point: forward, each: step}, "
                              "{kind: sleep, ms: 9, rank: 6, point: backward, each: step}]"});
  CHECK(largest_difference(once.tensors, late.tensors, 1e-30) == 0);
}

TEST_CASE("sequence parallel: stop and resume on any layout goes on with the same numbers",
          "[train][ranks]") {
  const TempDir straight;
  run_job(job_on(straight, "{dp: 1}", 1));
  const auto expected = read_tensors(step_dir(straight.path(), 10));
  struct Change {
    std::string from, to;
    int from_ranks, to_ranks;
  };
  for (const Change& change : {Change{"{sp: 2}", "{dp: 1}", 2, 1},
                               Change{"{dp: 1}", "{sp: 4, dp: 2}", 1, 8},
                               Change{"{sp: 2, tp: 2}", "{sp: 4, sp_method: ulysses}", 4, 4}}) {
    CAPTURE(change.from, change.to);
    const TempDir dir;
    JobOptions first = job_on(dir, change.from, change.from_ranks);
    first.stop_after_one_step = true;
    for (const int code : run_job(first).codes) REQUIRE(code == to_int(WorkerExit::kStoppedSaved));
    JobOptions second = job_on(dir, change.to, change.to_ranks);
    second.resume_path = step_dir(dir.path(), 1);
    second.incarnation = 1;
    for (const int code : run_job(second).codes) REQUIRE(code == 0);
    CHECK(largest_difference(expected, read_tensors(step_dir(dir.path(), 10)), 3e-2) < 1e-10);
  }
}
