// The mesh grid: ten steps on two hundred layouts are ten steps on one rank.
//
// In fp64 every rank compares what it holds after every step with the one rank's tensors, as `llmtrain prove`
// does; a sample goes through whole jobs and their checkpoints, in fp32 and bf16 too.
#include "tests/train/grid.hpp"

#include <algorithm>
#include <map>

#include "llmtrain/job/shrink_job.hpp"
#include "llmtrain/spec/write.hpp"
#include "llmtrain/train/proof.hpp"

#include "tests/train/parity.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr double kTolerance = 1e-10;

// Layouts of one model and batch share what one rank computed.
class References {
 public:
  const std::vector<ProofReference>& of(const JobSpec& job) {
    JobSpec one = one_rank_job(job);
    one.batch.micro_batch_size = *one.batch.global_batch_size;
    one.batch.gradient_accumulation_steps = 1;
    const auto [entry, is_new] = computed_.try_emplace(to_yaml(to_tree(one)));
    if (is_new) entry->second = compute_reference(one);
    return entry->second;
  }

  std::size_t count() const { return computed_.size(); }

 private:
  std::map<std::string, std::vector<ProofReference>> computed_;
};

std::string where(const Verdict& verdict) {
  if (verdict.ok()) return "nowhere";
  const Comparison& first = *verdict.first_divergence;
  return fmt::format("step {}, rank {}, {} of {}: {:.1e}",
                     first.step,
                     first.rank,
                     to_string(first.what),
                     first.tensor,
                     first.difference);
}

void check_grid(const Grid& grid) {
  References references;
  double worst = 0;
  for (const GridJob& job : grid.jobs) {
    INFO(job.name << fmt::format("\n--set {}", fmt::join(job.overrides, " --set ")));
    const JobSpec spec = *grid_spec(job.overrides);
    const Verdict verdict = compare_ranks(spec, references.of(spec), kTolerance);
    INFO("differs at " << where(verdict));
    CHECK(verdict.ok());
    worst = std::max(worst, *std::max_element(verdict.max_rel_diff.begin(), verdict.max_rel_diff.end()));
  }
  fmt::print(
      "{}largest difference from {} runs of one rank: {:.1e}\n", grid.summary, references.count(), worst);
}

// Whole jobs through their checkpoints: every `stride`-th of the grid.
void check_sample(const Grid& grid, const std::string& compute, std::size_t stride, double tolerance) {
  const std::vector<std::string> settings = {"precision.compute=" + compute,
                                             "optimizer={name: sgd, lr: 0.1}"};
  std::map<std::vector<std::string>, Outcome> references;
  for (std::size_t i = 0; i < grid.jobs.size(); i += stride) {
    const GridJob& job = grid.jobs[i];
    if (job.layout.accumulation == 3) continue;  // sixteen sequences
    CAPTURE(compute, job.name);
    std::vector<std::string> overrides = settings;
    overrides.insert(overrides.end(), job.task.begin(), job.task.end());
    const auto [entry, is_new] = references.try_emplace(job.task);
    if (is_new) entry->second = train({}, overrides, kGridJob);
    check_equal(entry->second, train(job.layout, overrides, kGridJob), tolerance);
  }
}

}  // namespace

TEST_CASE("grid: every layout is one rank, fp64", "[train][ranks]") {
  const Grid grid = make_grid(8, false, 200, 1000);
  CHECK(grid.jobs.size() >= 200);
  CHECK(grid.covering.covered == grid.covering.possible);
  // A value that `validate` refuses everywhere would be missing in silence.
  for (const std::vector<std::size_t>& axis : grid.covering.uses)
    for (const std::size_t jobs : axis) CHECK(jobs > 0);
  check_grid(grid);
}

TEST_CASE("grid: sixteen ranks are one rank, fp64", "[train][ranks]") {
  check_grid(make_grid(16, true, 0, 12));
}

TEST_CASE("grid: whole jobs are one rank, within their rounding", "[train][ranks]") {
  const Grid grid = make_grid(8, false, 0, 1000);
  check_sample(grid, "fp64", 10, 1e-10);
  check_sample(grid, "fp32", 5, 2e-5);
  check_sample(grid, "bf16", 10, 2e-2);
}

// Some of the sequences do hold the end of a document.
TEST_CASE("grid: masks of documents are not in vain", "[train][ranks]") {
  const auto with_mask = [](const char* mask) {
    std::vector<std::string> overrides = overrides_of(Layout{});
    overrides.push_back(std::string("data.document_mask=") + mask);
    return *grid_spec(overrides);
  };
  const auto reference = compute_reference(with_mask("true"));
  CHECK_FALSE(compare_ranks(with_mask("false"), reference, kTolerance).ok());
}

TEST_CASE("grid: a mistake does not stay within the tolerance", "[train][ranks]") {
  const JobSpec spec = *grid_spec(overrides_of(Layout{.dp = 2, .accumulation = 2}, 16));
  const auto reference = compute_reference(spec);
  CHECK(compare_ranks(spec, reference, kTolerance).ok());
  CHECK_FALSE(compare_ranks(spec, reference, kTolerance, Plant::kLossScale).ok());
}
