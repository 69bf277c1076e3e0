#include "llmtrain/job/load_job.hpp"

#include "llmtrain/job/run_plan.hpp"

#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::check;
using test::kMinimal;
using test::messages_of;
using test::ScratchDir;

namespace {

LoadedJob loaded(const std::string& yaml, std::vector<std::string> overrides = {}, JobSource source = {}) {
  JobReport report = check(yaml, std::move(overrides), std::move(source));
  INFO(messages_of(report));
  REQUIRE(report.job);
  return std::move(*report.job);
}

}  // namespace

TEST_CASE("load: nothing is left to decide", "[job]") {
  const JobSpec spec = loaded(kMinimal).spec;
  CHECK(spec.model.num_kv_heads == 4);
  CHECK(spec.model.head_dim == 4);
  CHECK(spec.model.ffn_hidden_size == 64);  // 8/3 x 16 = 42.7, up to a multiple of 64
  CHECK(spec.model.max_position == 8);
  CHECK(spec.parallelism.dp == 1);
  CHECK(spec.launch.procs_per_node == 1);
  CHECK(spec.batch.gradient_accumulation_steps == 1);
  CHECK(spec.batch.global_batch_size == 2);
  CHECK(spec.precision.reduce == DType::kFp32);
  CHECK(spec.run.dir == "runs/run");
  CHECK(loaded(kMinimal, {"precision.compute=fp64"}).spec.precision.reduce == DType::kFp64);
  CHECK(loaded(kMinimal, {"model.mlp=gelu"}).spec.model.ffn_hidden_size == 64);  // 4 x 16
  CHECK(loaded(kMinimal, {"model.hidden_size=4096", "model.num_heads=32"}).spec.model.ffn_hidden_size ==
        10944);
}

TEST_CASE("load: layout and batch follow from each other", "[job]") {
  const auto plan = [](std::vector<std::string> overrides, std::optional<int> procs = {}) {
    JobSource source;
    source.procs_per_node = procs;
    return plan_run(loaded(kMinimal, std::move(overrides), source).spec);
  };
  CHECK(plan({"parallelism.dp=4"}).world_size == 4);
  CHECK(plan({"parallelism.dp=4"}).procs_per_node == 4);
  CHECK(plan({"launch.procs_per_node=4"}).mesh.dp == 4);
  CHECK(plan({}, 3).mesh.dp == 3);
  CHECK(plan({"launch.procs_per_node=4"}, 2).mesh.dp == 2);  // the command line wins
  CHECK(plan({"batch.global_batch_size=24", "parallelism.dp=3"}).accumulation == 4);
  CHECK(plan({"batch.gradient_accumulation_steps=5", "parallelism.dp=3"}).global_batch_size == 30);
}

TEST_CASE("load: the resolved text gives back the same spec bit for bit", "[job]") {
  const LoadedJob job =
      loaded(kMinimal,
             {"optimizer.lr=0.30000000000000004",
              "run.seed=18446744073709551615",
              "model.norm_eps=1e-7",
              "data.train=[{path: synthetic, weight: 0.1, max_epochs: 0.7}, {path: synthetic}]",
              "faults=[{kind: kill, rank: 0, step: 3}]",
              "run.dir='a $${b} \"c\"'",
              "launch.env={A: '1', B: 'on'}",
              "train.duration=10K tokens"});
  const auto again = parse_resolved(job.resolved_yaml, "spec.yaml");
  REQUIRE(again);
  CHECK(again->optimizer.lr == job.spec.optimizer.lr);
  CHECK(again->run.seed == 18446744073709551615ULL);
  CHECK(again->data.train[0].weight == 0.1);
  CHECK(again->run.dir == "a ${b} \"c\"");
  CHECK(plan_run(*again) == plan_run(job.spec));
  // Written again it is the same text, so no field was lost or rounded.
  JobSource source;
  const ScratchDir scratch;
  source.files = {scratch.write("spec.yaml", job.resolved_yaml)};
  source.overrides = {"run.dir='a $${b} \"c\"'"};
  CHECK(check_job(source).job->resolved_yaml == job.resolved_yaml);
}

TEST_CASE("load: parse_resolved refuses what is not resolved or not a spec", "[job]") {
  CHECK_THAT(parse_resolved("version: 1\n", "spec.yaml").error().message,
             Contains("spec.yaml:1:1: not a resolved spec"));
  CHECK_THAT(parse_resolved("versoin: 1\n", "spec.yaml").error().message,
             Contains("spec.yaml:1:1: versoin: unknown key"));
  CHECK_FALSE(parse_resolved(loaded(kMinimal).resolved_yaml + "x: [", "spec.yaml"));
}

TEST_CASE("load: files merge left to right and messages name the file that wrote the value", "[job]") {
  const ScratchDir scratch;
  JobSource source;
  source.files = {scratch.write("base.yaml", kMinimal),
                  scratch.write("more.yaml", "batch: {micro_batch_size: 3}\noptimizer: {lr: x}\n")};
  CHECK_THAT(messages_of(check_job(source)), Contains("more.yaml:2:17: optimizer.lr = x"));
  source.overrides = {"optimizer.lr=1"};
  const JobReport report = check_job(source);
  REQUIRE(report.job);
  CHECK(report.job->spec.batch.micro_batch_size == 3);
  CHECK(report.job->spec.train.duration == steps(100));
}

TEST_CASE("load: the source text keeps what was written, with overrides", "[job]") {
  JobSource source;
  source.env = {{"N", "ada"}};
  const LoadedJob job = loaded(kMinimal, {"run.name='${env:N}'", "parallelism.tp_size=1"}, source);
  CHECK(job.spec.run.name == "ada");
  CHECK(job.spec.run.dir == "runs/ada");
  CHECK_THAT(job.source_yaml, Contains("name: \"${env:N}\"") && Contains("tp: 1") && !Contains("tp_size"));
  CHECK_THAT(job.source_yaml, !Contains("ffn_hidden_size"));
}

TEST_CASE("load: a leading ~ is the home directory that was given", "[job]") {
  JobSource source;
  source.home = "/home/ada";
  const JobSpec spec =
      loaded(kMinimal,
             {"run.dir=~/runs", "data.train='~/d'", "data.valid='~other/d'", "data.tokenizer=a~b"},
             source)
          .spec;
  CHECK(spec.run.dir == "/home/ada/runs");
  CHECK(spec.data.train[0].path == "/home/ada/d");
  CHECK(spec.data.valid[0].path == "~other/d");
  CHECK(spec.data.tokenizer == "a~b");
  source.home = "";
  CHECK(loaded(kMinimal, {"run.dir=~/runs"}, source).spec.run.dir == "~/runs");
}

TEST_CASE("load: a file that cannot be read is named", "[job]") {
  JobSource source;
  CHECK_THAT(messages_of(check_job(source)), Contains("no job file given"));
  source.files = {"/no/such job.yaml"};
  CHECK_THAT(messages_of(check_job(source)), Contains("/no/such job.yaml: cannot be opened"));
  source.files = {"/tmp"};
  CHECK_THAT(messages_of(check_job(source)), Contains("/tmp: cannot be read"));
  const ScratchDir scratch;
  source.files = {scratch.write("big.yaml", std::string(2 << 20, '#'))};
  CHECK_THAT(messages_of(check_job(source)), Contains("a job file has at most 1048576"));
}

TEST_CASE("load: the error of load_job holds every violation", "[job]") {
  const ScratchDir scratch;
  JobSource source;
  source.files = {scratch.write("job.yaml", kMinimal)};
  source.overrides = {"parallelism.tp=3", "optimizer.lr=x"};
  const auto job = load_job(source);
  REQUIRE_FALSE(job);
  CHECK(job.error().code == ErrorCode::kInvalidSpec);
  CHECK_THAT(job.error().message, Contains("parallelism.tp = 3") && Contains("optimizer.lr = x"));
}
