#include <array>
#include <cstdio>

#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

// The commands `validate` and `schema` as a user meets them.
using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
};

// Runs `llmtrain <arguments>` through the shell.
Outcome run(const std::string& arguments) {
  const test::TemporaryDirectory scratch;
  const std::string command = "'" LLMTRAIN_BINARY_DIR "/llmtrain' " + arguments + " 2>" + (scratch / "err");
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Outcome outcome;
  std::array<char, 4096> buffer;
  for (std::size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream stream(scratch / "err");
  outcome.err.assign(std::istreambuf_iterator<char>(stream), {});
  return outcome;
}

std::string config(const char* name) {
  return std::string("'" LLMTRAIN_SOURCE_DIR "/configs/") + name + "'";
}

}  // namespace

TEST_CASE("validate: every shipped config and example is valid and resolves to itself", "[cli]") {
  for (const char* folder : {"configs", "examples"}) {
    for (const auto& file :
         std::filesystem::directory_iterator(std::filesystem::path(LLMTRAIN_SOURCE_DIR) / folder)) {
      if (file.path().extension() != ".yaml") continue;
      const Outcome outcome = run("validate '" + file.path().string() + "'");
      INFO(file.path() << outcome.err);
      CHECK(outcome.code == 0);
      CHECK(parse_resolved(outcome.out, "stdout"));
    }
  }
}

TEST_CASE("validate: says what a rank holds and sends", "[cli]") {
  const std::string job = config("cpu_zero3.yaml");
  const auto rank = nlohmann::json::parse(run("validate --json " + job).out)["rank"];
  // A quarter of 459,904 elements; two blocks of 49,280 and the head that are whole at a time; two
  // micro-batches.
  CHECK(rank["params"] == 4 * (459'904 / 4 + 2 * 49'280 + 32'896));
  CHECK(rank["grads"] == rank["params"]);
  CHECK(rank["optimizer"] == 8 * 459'904 / 4);
  CHECK(rank["reduce_scatter"]["bytes"] == 2 * 459'904 * 4);
  CHECK(rank["all_reduce"]["bytes"] == 8);
  const Outcome text = run("validate " + job + " --set parallelism.zero_stage=0");
  CHECK_THAT(
      text.out,
      Contains("# a rank holds, without activations: params 1.84 MB, grads 1.84 MB, optimizer 3.68 MB"));
  CHECK_THAT(text.out, Contains("all_reduce 1.84 MB, reduce_scatter 0 B, all_gather 0 B"));
}

TEST_CASE("validate: says what a pipeline does, and what the rank that holds most does", "[cli]") {
  const std::string job = config("cpu8_tp2_pp2_dp2.yaml");
  const auto json = nlohmann::json::parse(run("validate --json " + job).out);
  CHECK(json["spec"]["parallelism"]["stage_layers"] == nlohmann::json{4, 4});
  const auto& pipeline = json["pipeline"];
  CHECK(pipeline["bubble_share"] == 0.2);  // (pp - 1) / (micro-batches + pp - 1)
  CHECK(pipeline["stages"].size() == 2);
  CHECK(pipeline["stages"][0]["peak_in_flight"] == 2);
  CHECK(pipeline["stages"][1]["peak_in_flight"] == 1);
  // Four micro-batches of two sequences; a tp rank has half of the 128 tokens, 64 wide, in fp32.
  CHECK(pipeline["stages"][0]["axes"]["pp"]["send"]["calls"] == 4);
  CHECK(pipeline["stages"][0]["axes"]["pp"]["send"]["bytes"] == 4 * 64 * 64 * 4);
  CHECK(pipeline["stages"][1]["axes"]["pp_grad"]["send"]["bytes"] == 4 * 64 * 64 * 4);
  // The final norm makes the last stage the larger one.
  CHECK(json["rank"]["params"] == pipeline["stages"][1]["params"]);
  const Outcome text = run("validate " + job);
  CHECK_THAT(text.out,
             Contains("# pipeline: 1f1b, 2 stages, 4 micro-batches; stages stand idle for 20.0 % of a step\n"
                      "# layers of each virtual stage: 4 4; micro-batches kept at once by each stage: 2 1\n"
                      "# a rank of stage 1, which holds most, has, without activations: "));
  CHECK(nlohmann::json::parse(run("validate --json " + config("cpu1.yaml")).out)["pipeline"].is_null());
}

TEST_CASE("validate: says what zero stages 2 and 3 cost in a pipeline", "[cli]") {
  const std::string job = config("cpu8_tp2_pp2_dp2.yaml");
  CHECK_THAT(run("validate " + job).out, !Contains("in a pipeline"));
  const Outcome two = run("validate " + job + " --set parallelism.zero_stage=2");
  CHECK_THAT(two.out,
             Contains("# zero_stage 2 in a pipeline: gradients are summed after each of 4 micro-batches, "));
  const Outcome three = run("validate " + job + " --set parallelism.zero_stage=3");
  CHECK_THAT(three.out, Contains("; weights are gathered ") && Contains("reshard_after_forward: false"));
  const Outcome kept = run("validate " + job +
                           " --set parallelism.zero_stage=3 --set parallelism.reshard_after_forward=false");
  CHECK_THAT(kept.out, Contains("# zero_stage 3 in a pipeline") && !Contains("weights are gathered"));
}

TEST_CASE("validate: a degree that does not fit exits 2 and names file, field, value and what is allowed",
          "[cli]") {
  const Outcome outcome = run("validate " + config("quickstart.yaml") + " --set parallelism.tp=3");
  CHECK(outcome.code == 2);
  CHECK(outcome.out.empty());
  CHECK_THAT(outcome.err,
             Contains("quickstart.yaml") && Contains("parallelism.tp = 3") &&
                 Contains("allowed with this model: 1, 2, 4\n"));
}

TEST_CASE("validate: --set values with commas, brackets and equals signs arrive whole", "[cli]") {
  const Outcome outcome = run("validate " + config("smoke_dp2.yaml") +
                              " --set 'faults=[{kind: sleep, ms: 100, each: step}]' --set 'launch.env={A: "
                              "\"b=c,d\"}' --set optimizer.lr=1");
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const auto spec = parse_resolved(outcome.out, "stdout");
  REQUIRE(spec);
  REQUIRE(spec->faults.size() == 1);
  CHECK(spec->faults[0].ms == 100);
  CHECK(spec->launch.env.at("A") == "b=c,d");
  CHECK(spec->optimizer.lr == 1);
}

TEST_CASE("validate: a misspelt field is answered with its place and the right spelling", "[cli]") {
  const test::ScratchDir scratch;
  const std::string file = scratch.write(
      "job.yaml", std::string(test::kMinimal) + "optimizer:\n  learn_rate: 1\n  weight_deacy: 0\n");
  const Outcome outcome = run("validate '" + file + "'");
  CHECK(outcome.code == 2);
  CHECK_THAT(
      outcome.err,
      Contains(file + ":8:3: optimizer.weight_deacy: unknown key; did you mean optimizer.weight_decay?"));
}

TEST_CASE("validate: --json holds the spec, or every violation with its place", "[cli]") {
  const auto good = nlohmann::json::parse(run("validate --json " + config("smoke_1rank.yaml")).out);
  CHECK(good["valid"] == true);
  CHECK(good["spec"]["run"]["seed"] == 1234);
  const Outcome bad =
      run("validate --json " + config("smoke_1rank.yaml") + " --set parallelism.tp=3 --set lr=1");
  CHECK(bad.code == 2);
  const auto json = nlohmann::json::parse(bad.out);
  CHECK(json["valid"] == false);
  CHECK(json["spec"].is_null());
  REQUIRE(json["diagnostics"].size() == 2);
  CHECK(json["diagnostics"][1]["field"] == "parallelism.tp");
}

TEST_CASE("validate: the environment reaches ${env:X} and ~", "[cli]") {
  const std::string job =
      config("smoke_1rank.yaml") + " --set 'run.name=${env:LLMTRAIN_TEST_NAME}' --set run.dir=~/runs";
  const Outcome outcome =
      run("--version >/dev/null; LLMTRAIN_TEST_NAME=ada HOME=/home/ada '" LLMTRAIN_BINARY_DIR
          "/llmtrain' validate " +
          job);
  INFO(outcome.err);
  CHECK_THAT(outcome.out, Contains("name: ada") && Contains("dir: /home/ada/runs"));
}

TEST_CASE("validate: what is no job exits 2", "[cli]") {
  for (const char* arguments : {"validate",
                                "validate /no/such.yaml",
                                "validate /tmp",
                                "validate x.yaml --set",
                                "validate --nope",
                                "validate /dev/null --nproc-per-node 0"})
    CHECK(run(arguments).code == 2);
}

TEST_CASE("schema: prints JSON, and the page that docs hold", "[cli]") {
  CHECK(nlohmann::json::parse(run("schema").out)["type"] == "object");
  CHECK_THAT(run("schema --markdown").out, Catch::Matchers::StartsWith("# The job spec\n"));
}
