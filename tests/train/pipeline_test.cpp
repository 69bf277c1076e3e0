// Jobs whose layers are cut over the stages of a pipeline, against one rank that has them all.
#include "llmtrain/train/pipeline.hpp"

#include <fstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/schedule/in_flight.hpp"
#include "llmtrain/train/build.hpp"
#include "llmtrain/train/proof_ranks.hpp"

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

const std::string kAdamW = "optimizer={name: adamw, lr: 3.0e-3, clip_grad: 0.5}";
const std::string kFour = "model.num_layers=4";
const std::vector<std::string> kSchedules = {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"};

void check_layouts(std::vector<std::string> overrides,
                   const std::vector<Layout>& layouts,
                   double tolerance = 1e-10) {
  overrides.push_back(kAdamW);
  const Outcome reference = train({}, overrides);
  CHECK(*reference.steps.back().loss < *reference.steps.front().loss - 0.1);
  for (const Layout& layout : layouts) {
    CAPTURE(overrides, layout.pp, layout.schedule, layout.accumulation, layout.dp, layout.tp, layout.sp);
    CAPTURE(layout.zero, layout.virtual_stages, layout.shard_sequence);
    check_equal(reference, train(layout, overrides), tolerance);
  }
}

}  // namespace

TEST_CASE("pipeline: every schedule is one run, fp64", "[train][ranks]") {
  std::vector<Layout> layouts;
  for (const std::string& schedule : kSchedules)
    for (const int pp : {2, 4}) {
      const int virtual_stages = schedule == "interleaved" && pp == 4 ? 1 : 0;
      if (virtual_stages == 1 || (schedule == "zbv" && pp == 4)) continue;  // more pieces than layers
      for (const int accumulation : {4, 8})
        layouts.push_back({.accumulation = accumulation, .pp = pp, .schedule = schedule});
    }
  check_layouts({kFour}, layouts);
}

TEST_CASE("pipeline: more pieces than one a stage, and as many as there are layers", "[train][ranks]") {
  check_layouts({"model.num_layers=8"},
                {{.accumulation = 4, .pp = 4, .schedule = "interleaved"},
                 {.accumulation = 8, .pp = 2, .schedule = "interleaved", .virtual_stages = 4},
                 {.accumulation = 8, .pp = 4, .schedule = "zbv"}});
}

TEST_CASE("pipeline: beside every other axis", "[train][ranks]") {
  std::vector<Layout> layouts;
  for (const char* schedule : {"1f1b", "zb-h1", "zbv", "interleaved"}) {
    layouts.push_back({.dp = 2, .accumulation = 4, .tp = 2, .pp = 2, .schedule = schedule});
    layouts.push_back(
        {.dp = 2, .accumulation = 2, .tp = 2, .shard_sequence = true, .pp = 2, .schedule = schedule});
    layouts.push_back(
        {.accumulation = 4, .tp = 2, .shard_sequence = true, .sp = 2, .pp = 2, .schedule = schedule});
    layouts.push_back({.accumulation = 4, .sp = 2, .method = "ulysses", .pp = 2, .schedule = schedule});
  }
  check_layouts({kFour}, layouts);
}

TEST_CASE("pipeline: with state that is sharded over data-parallel ranks", "[train][ranks]") {
  std::vector<Layout> layouts;
  for (const std::string& schedule : kSchedules)
    for (const int zero : {1, 2, 3})
      layouts.push_back({.dp = 2, .accumulation = 4, .zero = zero, .pp = 2, .schedule = schedule});
  layouts.push_back({.dp = 4, .accumulation = 2, .zero = 3, .dp_shard = 2, .pp = 2});
  check_layouts({kFour}, layouts);
}

TEST_CASE("pipeline: an embedding that the head shares, at both ends or on one stage", "[train][ranks]") {
  for (const char* model :
       {"model={family: qwen2, tie_embeddings: true}", "model={family: gpt2, num_kv_heads: 4}"}) {
    std::vector<Layout> layouts;
    for (const std::string& schedule : kSchedules)
      for (const int zero : {0, 1, 3})
        layouts.push_back({.dp = 2, .accumulation = 4, .zero = zero, .pp = 2, .schedule = schedule});
    layouts.push_back({.accumulation = 4, .tp = 2, .shard_sequence = true, .pp = 2});
    check_layouts({model, kFour}, layouts);
  }
}

TEST_CASE("pipeline: uneven stages, and stages without a layer", "[train][ranks]") {
  for (const char* layers : {"parallelism.stage_layers=[1, 3]", "parallelism.stage_layers=[4, 0]"}) {
    const Outcome reference = train({}, {kFour, kAdamW});
    for (const char* schedule : {"1f1b", "zb-h1"}) {
      CAPTURE(layers, schedule);
      check_equal(reference,
                  train({.accumulation = 4, .pp = 2, .schedule = schedule}, {kFour, kAdamW, layers}),
                  1e-10);
    }
  }
}

TEST_CASE("pipeline: fp32 and bf16 are one run within their rounding", "[train][ranks]") {
  const std::string sgd = "optimizer={name: sgd, lr: 0.5, clip_grad: 0.5}";
  for (const auto& [compute, tolerance] : {std::pair("fp32", 2e-5), std::pair("bf16", 2e-2)}) {
    const std::vector<std::string> overrides = {kFour, sgd, std::string("precision.compute=") + compute};
    const Outcome reference = train({}, overrides);
    check_equal(reference, train({.accumulation = 4, .pp = 2, .schedule = "zbv"}, overrides), tolerance);
  }
}

TEST_CASE("pipeline: evaluation goes through the stages, whatever each rank's share of samples",
          "[train][ranks]") {
  // Nine samples of two sequences each in groups of four: some data-parallel ranks have none at the end.
  const std::vector<std::string> overrides = {
      kFour, kAdamW, "data.valid=synthetic", "train.eval_interval=5 steps", "train.eval_steps=3"};
  const auto losses = [](const Outcome& outcome) {
    std::vector<double> found;
    for (const Event& event : outcome.events)
      if (const auto* report = std::get_if<EvalReport>(&event.body)) found.push_back(report->loss);
    return found;
  };
  const std::vector<double> expected = losses(train({}, overrides));
  REQUIRE(expected.size() == 2);
  for (const Layout& layout : {Layout{.dp = 2, .accumulation = 4, .pp = 2},
                               Layout{.dp = 2, .accumulation = 4, .zero = 3, .pp = 2, .schedule = "zbv"},
                               Layout{.dp = 2, .accumulation = 4, .pp = 2, .schedule = "interleaved"},
                               Layout{.accumulation = 4, .sp = 2, .pp = 4}}) {
    CAPTURE(layout.schedule, layout.dp, layout.pp);
    const std::vector<double> found = losses(train(layout, overrides));
    REQUIRE(found.size() == 2);
    for (const std::size_t i : {0U, 1U}) CHECK(relative(expected[i], found[i]) <= 1e-10);
  }
}

TEST_CASE("pipeline: stages keep as many micro-batches as the schedule says", "[train][ranks]") {
  const TempDir dir;
  for (const std::string& schedule : kSchedules) {
    CAPTURE(schedule);
    const std::string file = dir.path() + "/job.yaml";
    std::ofstream(file) << kTinyJob;
    const auto job = load_job({.files = {file},
                               .overrides = {kFour,
                                             "run.dir=" + dir.path(),
                                             "batch={micro_batch_size: 2, global_batch_size: 16}",
                                             "parallelism={pp: 2, dp: 1, schedule: " + schedule + "}"},
                               .procs_per_node = 2});
    REQUIRE(job);
    const auto plan = plan_pipeline(job->spec);
    REQUIRE(plan);
    const std::vector<InFlight> expected = in_flight(plan->schedule);
    run_proof_ranks(job->spec, Plant::kNone, [&](const RankContext& context, Rank& rank) {
      rank.trainer().advance();
      const auto stage = static_cast<std::size_t>(context.request.rank);
      if (rank.pipeline().peak_in_flight() != expected[stage].peak)
        throw std::runtime_error(fmt::format("stage {} kept {} micro-batches where the schedule says {}",
                                             stage,
                                             rank.pipeline().peak_in_flight(),
                                             expected[stage].peak));
    });
  }
}

TEST_CASE("pipeline: a checkpoint of any layout goes on in any other", "[train][ranks]") {
  const std::vector<std::string> overrides = {kFour, kAdamW, "model={family: qwen2, tie_embeddings: true}"};
  const auto after = [&](const Layout& from, const Layout& to) {
    const TempDir dir;
    const auto job = [&](const Layout& layout) {
      JobOptions options{.yaml = kTinyJob,
                         .overrides = overrides,
                         .processes = layout.ranks(),
                         .run_dir = dir.path(),
                         .resume_path = {}};
      for (const std::string& override : overrides_of(layout)) options.overrides.push_back(override);
      return options;
    };
    JobOptions first = job(from);
    first.stop_after_one_step = true;
    for (const int code : run_job(first).codes) REQUIRE(code == to_int(WorkerExit::kStoppedSaved));
    JobOptions second = job(to);
    second.resume_path = step_dir(dir.path(), 1);
    second.incarnation = 1;
    for (const int code : run_job(second).codes) REQUIRE(code == 0);
    return read_tensors(step_dir(dir.path(), 10));
  };
  const Layout one{};
  const Layout pipeline{.dp = 2, .accumulation = 4, .zero = 2, .pp = 2, .schedule = "zbv"};
  const Layout tensor{.accumulation = 4, .tp = 2, .pp = 2};
  const auto expected = after(one, one);
  CHECK(largest_difference(expected, after(pipeline, tensor), 3e-2) <= 1e-10);
  CHECK(largest_difference(expected, after(tensor, one), 3e-2) <= 1e-10);
  const auto undisturbed = train(pipeline, overrides).tensors;
  CHECK(after(pipeline, pipeline) == undisturbed);  // to the bit
}
