#include "llmtrain/job/certificate.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "llmtrain/job/prove_request.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

Comparison compared(std::int64_t step, Compared what, int position, int rank, double difference) {
  return {.step = step,
          .what = what,
          .position = position,
          .rank = rank,
          .tensor = "tensor " + std::to_string(position),
          .difference = difference};
}

Certificate certificate(const std::vector<Comparison>& comparisons, int dp_of_the_user = 2) {
  const JobReport report = test::check(test::kMinimal, {"parallelism={dp: 2}"});
  REQUIRE(report.job);
  Certificate result{.original = report.job->spec,
                     .proved = report.job->spec,
                     .plant = {},
                     .verdict = judge(comparisons, 1e-9)};
  result.original.parallelism.dp = dp_of_the_user;
  return result;
}

}  // namespace

TEST_CASE("verdict: the largest difference of each quantity, equal within the tolerance", "[job]") {
  const Verdict verdict = judge({compared(1, Compared::kGrad, 0, 0, 1e-12),
                                 compared(2, Compared::kGrad, 1, 1, 1e-10),
                                 compared(2, Compared::kLoss, 0, 1, 1e-9)},
                                1e-9);
  CHECK(verdict.ok());
  CHECK(verdict.largest(Compared::kGrad) == 1e-10);
  CHECK(verdict.largest(Compared::kLoss) == 1e-9);
  CHECK(verdict.largest(Compared::kMoment) == 0);
}

TEST_CASE("verdict: the first divergence is that of the earliest step, quantity, tensor and rank", "[job]") {
  const Verdict verdict = judge({compared(3, Compared::kSampleOrder, 0, 0, 1),
                                 compared(2, Compared::kWeight, 0, 0, 1),
                                 compared(2, Compared::kGrad, 5, 0, 1),
                                 compared(2, Compared::kGrad, 4, 3, 1),
                                 compared(2, Compared::kGrad, 4, 2, 1),
                                 compared(1, Compared::kGrad, 0, 0, 1e-10)},
                                1e-9);
  REQUIRE_FALSE(verdict.ok());
  CHECK(verdict.first_divergence->step == 2);
  CHECK(verdict.first_divergence->what == Compared::kGrad);
  CHECK(verdict.first_divergence->position == 4);
  CHECK(verdict.first_divergence->rank == 2);
}

TEST_CASE("verdict: what is not a number is never equal", "[job]") {
  const Verdict verdict = judge({compared(1, Compared::kLoss, 0, 0, std::nan(""))}, 1e-9);
  CHECK_FALSE(verdict.ok());
  CHECK(std::isinf(verdict.largest(Compared::kLoss)));
}

TEST_CASE("certificate: as JSON", "[job]") {
  const auto good = nlohmann::json::parse(to_json(certificate({compared(1, Compared::kGrad, 0, 0, 1e-12)})));
  CHECK(good["layout"]["dp"] == 2);
  CHECK(good["layout"]["tp"] == 1);
  CHECK(good["shrunk_from"].is_null());
  CHECK(good["ranks"] == 2);
  CHECK(good["steps"] == 100);
  CHECK(good["max_rel_diff"]["grad"] == 1e-12);
  CHECK(good["max_rel_diff"].size() == 6);
  CHECK(good["tolerance"] == 1e-9);
  CHECK(good["ok"] == true);
  CHECK(good["first_divergence"].is_null());

  const auto bad =
      nlohmann::json::parse(to_json(certificate({compared(2, Compared::kWeight, 7, 1, std::nan(""))}, 128)));
  CHECK(bad["ok"] == false);
  CHECK(bad["shrunk_from"]["dp"] == 128);
  CHECK(bad["max_rel_diff"]["weight"].is_null());
  CHECK(bad["first_divergence"]["step"] == 2);
  CHECK(bad["first_divergence"]["rank"] == 1);
  CHECK(bad["first_divergence"]["tensor"] == "tensor 7");
}

TEST_CASE("certificate: as text", "[job]") {
  const std::string good = to_text(certificate({}));
  CHECK_THAT(good, Contains("dp 2") && Contains("\nequal: ") && !Contains("shrunk from"));
  const std::string bad = to_text(certificate({compared(2, Compared::kWeight, 7, 1, 0.5)}, 128));
  CHECK_THAT(bad,
             Contains("shrunk from") && Contains("dp 128") &&
                 Contains("first divergence: step 2, rank 1, weight of tensor 7") &&
                 Contains("\ndifferent: "));
}

TEST_CASE("prove request: text and back", "[job]") {
  const auto request = prove_request_from_json(
      to_json({.spec_yaml = "a: \"b\"\n", .original_yaml = "c", .plant = "row-bias", .json = true}));
  REQUIRE(request);
  CHECK(request->spec_yaml == "a: \"b\"\n");
  CHECK(request->original_yaml == "c");
  CHECK(request->plant == "row-bias");
  CHECK(request->json);
  CHECK_FALSE(prove_request_from_json("{}"));
}
