#include "llmtrain/spec/write.hpp"

#include <nlohmann/json.hpp>

#include "tests/spec/read_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using test::Read;

TEST_CASE("write: a spec reads back from its own text", "[spec]") {
  JobSpec spec;
  spec.run.name = "on";
  spec.run.dir = "a b/\"c\"\\${x}: #\n\ttab\x01\x7f é";
  spec.run.seed = 18446744073709551615ULL;
  spec.model.num_kv_heads = 3;
  spec.optimizer.lr = 0.1 + 0.2;
  spec.optimizer.eps = 2.2250738585072014e-308;
  spec.model.vocab_size = 7;
  spec.model.hidden_size = spec.model.num_layers = spec.model.num_heads = 1;
  spec.data.train = {{.path = "null", .weight = 1.0 / 3, .max_epochs = 2.5}, DataSourceSpec{}};
  spec.train.duration = {100e9, Quantity::Unit::kTokens};
  spec.launch.env = {{"A", "1"}, {"B", ""}, {"yes", "- x"}};
  spec.launch.nodes = {2, 4};
  spec.launch.stop_signals = {StopSignal::kUsr2, StopSignal::kTerm};
  spec.launch.slurm.exclude = {"n1", "", "007"};
  spec.launch.time_limit = 90.5;
  spec.resilience.on_failure.oom = FailureAction::kStop;
  spec.faults.emplace_back().kind = FaultKind::kKill;

  const std::string text = to_yaml(to_tree(spec));
  const Read back(text);
  INFO(text);
  CHECK(back.messages().empty());
  CHECK(to_yaml(to_tree(back.spec)) == text);
  CHECK(back.spec.run.dir == spec.run.dir);
  CHECK(back.spec.run.seed == spec.run.seed);
  CHECK(back.spec.optimizer.lr == spec.optimizer.lr);
  CHECK(back.spec.optimizer.eps == spec.optimizer.eps);
  CHECK(back.spec.data.train[0].weight == spec.data.train[0].weight);
  CHECK(back.spec.data.train[0].path == "null");
  CHECK(back.spec.launch.env == spec.launch.env);
  CHECK(back.spec.launch.nodes == NodeCount(2, 4));
  CHECK(back.spec.launch.stop_signals == spec.launch.stop_signals);
  CHECK(back.spec.launch.slurm.exclude == spec.launch.slurm.exclude);
  CHECK(back.spec.launch.time_limit == 90.5);
  CHECK(back.spec.resilience.on_failure.oom == FailureAction::kStop);
  CHECK(back.spec.resilience.on_failure.crash == FailureAction::kRestart);
}

TEST_CASE("write: JSON keeps types and every bit of a seed", "[spec]") {
  JobSpec spec;
  spec.run.name = "1";
  spec.run.seed = 18446744073709551615ULL;
  spec.optimizer.lr = 0.1 + 0.2;
  const auto json = nlohmann::json::parse(to_json(to_tree(spec)));
  CHECK(json["run"]["name"] == "1");
  CHECK(json["run"]["seed"].get<std::uint64_t>() == spec.run.seed);
  CHECK(json["optimizer"]["lr"].get<double>() == spec.optimizer.lr);
  CHECK(json["monitoring"]["tensorboard"] == true);
  CHECK(json["parallelism"]["dp"] == "auto");
  CHECK(json["faults"].is_array());
}

TEST_CASE("write: any tree reads back as the same tree", "[spec]") {
  for (const char* yaml : {"a: [[1, 2], [3]]\n",
                           "a: [{b: [{c: d}]}, {}, []]\n",
                           "a: {}\n",
                           "a: []\n",
                           "a:\nb: ~\n",
                           "a: |\n  two\n  lines\n",
                           "a: '  x '\n",
                           "'a key: with': \"- dash\"\n",
                           "a: '---'\n",
                           "a: '...'\nb: '%x'\nc: '-'\nd: '?'\ne: '@'\nf: '12:30'\n",
                           "a: \"\xC2\x85\xE2\x80\xA8\"\n"}) {
    Diagnostics diagnostics;
    const std::string once = to_yaml(parse_yaml(yaml, "a", diagnostics));
    const YamlNode again = parse_yaml(once, "b", diagnostics);
    INFO(yaml << once);
    CHECK(diagnostics.all().empty());
    CHECK(to_yaml(again) == once);
    CHECK(to_json(again) == to_json(parse_yaml(yaml, "a", diagnostics)));
  }
}
