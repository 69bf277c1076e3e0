#include "llmtrain/spec/read.hpp"

#include "tests/spec/read_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::Read;

TEST_CASE("read: a learning rate in any notation, quoted or not", "[spec]") {
  for (const char* text : {"1e-4", "1E-4", "1.0e-4", ".0001", "\"1e-4\"", "'1e-4'"}) {
    const Read read(std::string("optimizer: {lr: ") + text + "}");
    INFO(text);
    CHECK(read.ok());
    CHECK(read.spec.optimizer.lr == 0.0001);
  }
  for (const char* text :
       {"1e-4x", "nan", ".nan", "inf", "", "\"\"", "-1e-4", "1e999", "[1e-4]", "{a: 1}", "true"}) {
    const Read read(std::string("optimizer:\n  lr: ") + text + "\n");
    INFO(text);
    CHECK_FALSE(read.ok());
    CHECK_THAT(
        read.messages(),
        Contains("job.yaml:2:") && Contains("optimizer.lr") && Contains("allowed: a number of at least 0"));
  }
}

TEST_CASE("read: a wrong number names its value and what is allowed", "[spec]") {
  const struct {
    const char* yaml;
    const char* message;
  } cases[] = {
      {"batch: {micro_batch_size: -1}",
       "job.yaml:1:27: batch.micro_batch_size = -1: out of range; allowed: a whole number from 1 to 1000000"},
      {"batch: {micro_batch_size: 0}", "batch.micro_batch_size = 0: out of range"},
      {"batch: {micro_batch_size: 18446744073709551616}",
       "out of range; allowed: a whole number from 1 to 1000000"},
      {"batch: {micro_batch_size: 2.0}", "= 2.0: not a whole number"},
      {"batch: {micro_batch_size: 2.5}", "= 2.5: not a whole number"},
      {"resilience: {max_restarts: 3000000000}",
       "= 3000000000: out of range; allowed: a whole number from 0 to 2147483647"},
      {"run: {seed: -1}", "= -1: out of range; allowed: a whole number from 0 to 18446744073709551615"},
      {"run: {seed: 18446744073709551616}", "out of range"},
      {"version: 2", "version = 2: out of range; allowed: 1"},
      {"lr_schedule: {min_lr_ratio: 1.5}", "= 1.5: out of range; allowed: a number from 0 to 1"},
      {"model: {norm_eps: 0}", "= 0: out of range; allowed: a number above 0"},
      {"train: {duration: 18446744073709551616}", "train.duration: `18446744073709551616` is too large"},
      {"train: {duration: -5 steps}", "is negative"},
      {"optimizer: {betas: [0.9]}", "optimizer.betas: 1 values; allowed: a list of two"},
      {"optimizer: {betas: [0.9, x]}", "optimizer.betas[1] = x: not a number"},
      {"optimizer: {betas: 0.9}", "optimizer.betas = 0.9: a value does not fit here; allowed: a list of two"},
      {"model: {family: bert}", "= bert: unknown; allowed: one of gpt2, llama, mistral, qwen2, qwen3"},
      {"lr_schedule: {style: no}", "lr_schedule.style = no: unknown; allowed: one of constant"},
      {"faults: [{kind: sleep, point: nowhere}]",
       "faults[0].point = nowhere: unknown; allowed: one of step, data, forward"},
      {"faults: [{ms: 3}]", "faults[0].kind: missing"},
      {"faults: 3", "faults[0]: a value where a map of fields belongs"},
      {"run: 5", "job.yaml:1:6: run: a value where a map of fields belongs"},
      {"run: [a]", "run: a list where a map of fields belongs"},
      {"run: {name: [a]}", "run.name: a list does not fit here; allowed: text"},
      {"run: {name: }", "run.name: empty; allowed: text"},
      {"launch: {env: {A: [1]}}", "launch.env.A: a list does not fit here"},
      {"parallelism: {dp: -1x}",
       "parallelism.dp = -1x: not a whole number; allowed: a whole number from 1 to 1000000, or auto"},
  };
  for (const auto& refused : cases) {
    const Read read(refused.yaml);
    INFO(refused.yaml);
    CHECK(read.count() == 1);
    CHECK_THAT(read.messages(), Contains(refused.message));
  }
}

TEST_CASE("read: the schema decides what text is, not its looks", "[spec]") {
  const Read read(
      "run: {name: on, dir: 1e-4}\nmonitoring: {tensorboard: \"false\", check_collectives: TRUE}\n"
      "data: {tokenizer: off}\nlaunch: {env: {A: yes, B: 007}}");
  CHECK(read.messages().empty());
  CHECK(read.spec.run.name == "on");
  CHECK(read.spec.run.dir == "1e-4");
  CHECK(read.spec.data.tokenizer == "off");
  CHECK_FALSE(read.spec.monitoring.tensorboard);
  CHECK(read.spec.monitoring.check_collectives);
  CHECK(read.spec.launch.env == std::map<std::string, std::string>{{"A", "yes"}, {"B", "007"}});
  for (const char* flag : {"0", "1", "Off", "yes", "no", "y", "\"\"", ""}) {
    const Read refused(std::string("monitoring:\n  tensorboard: ") + flag);
    INFO(flag);
    CHECK_THAT(refused.messages(), Contains("monitoring.tensorboard") && Contains("allowed: true or false"));
  }
}

TEST_CASE("read: data sources as a list, one map or a path", "[spec]") {
  for (const char* text : {"[{path: a b}]", "{path: a b}", "a b", "[a b]"}) {
    const Read read(std::string("data: {train: ") + text + "}");
    INFO(text);
    CHECK(read.messages().empty());
    REQUIRE(read.spec.data.train.size() == 1);
    CHECK(read.spec.data.train[0].path == "a b");
    CHECK(read.spec.data.train[0].weight == 1.0);
  }
}

TEST_CASE("read: auto, and -1 for the rest of the ranks", "[spec]") {
  CHECK_FALSE(Read("parallelism: {dp: auto}").spec.parallelism.dp);
  CHECK_FALSE(Read("parallelism: {dp: -1}").spec.parallelism.dp);
  CHECK(Read("parallelism: {dp: 4}").spec.parallelism.dp == 4);
  CHECK_THAT(Read("batch: {micro_batch_size: auto}").messages(), Contains("= auto: not a whole number"));
}

TEST_CASE("read: a section with nothing in it changes nothing", "[spec]") {
  const Read read("monitoring:\nfaults:\ndata: {valid: }\n");
  CHECK(read.messages().empty());
}

TEST_CASE("read: a flag for sp explains the two meanings of sequence parallel", "[spec]") {
  for (const char* flag : {"true", "False"}) {
    const Read read(std::string("parallelism: {sp: ") + flag + "}");
    CHECK_THAT(read.messages(),
               Contains("means two things") && Contains("context parallelism") && Contains("Megatron"));
  }
}

TEST_CASE("read: every violation is reported, not only the first", "[spec]") {
  const Read read("run: {nam: x, seed: -1}\noptimizer:\n  lr: fast\n  betas: [1]\nunknown: 1\n");
  CHECK(read.count() == 5);
}

TEST_CASE("read: a flood of violations ends in one that says so, quickly", "[spec]") {
  std::string yaml = "data:\n  train:\n";
  for (int i = 0; i < 3000; ++i) yaml += "    - {pth: x, wieght: y}\n";
  const Read read(yaml);
  CHECK(read.count() == Diagnostics::kMost + 1);
  CHECK_FALSE(read.ok());
  CHECK_THAT(read.diagnostics.all().back().message, Contains("the rest is not listed"));
}

TEST_CASE("diagnostics: an error behind many warnings is not lost", "[spec]") {
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < 2 * Diagnostics::kMost; ++i) diagnostics.warning({}, "a", "b");
  CHECK_FALSE(diagnostics.has_errors());
  diagnostics.error({}, "a", "b");
  CHECK(diagnostics.has_errors());
}
