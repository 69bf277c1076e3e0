#include "llmtrain/spec/aliases.hpp"

#include <set>

#include "llmtrain/spec/schema.hpp"
#include "llmtrain/spec/tree.hpp"
#include "llmtrain/spec/write.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

struct Renamed {
  YamlNode tree;
  Diagnostics diagnostics;
  explicit Renamed(const std::string& yaml) {
    tree = parse_yaml(yaml, "job.yaml", diagnostics);
    rename_aliases(tree, diagnostics);
  }
  std::string messages() const {
    std::string out;
    for (const Diagnostic& diagnostic : diagnostics.all()) out += diagnostic.text() + "\n";
    return out;
  }
};

const FieldSchema* field_at(const FieldSchema& root, std::string_view path) {
  const FieldSchema* field = &root;
  while (field != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    field = field->find(path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return field;
}

}  // namespace

TEST_CASE("aliases: each leads to a field, hides none and is given once", "[spec]") {
  const FieldSchema root = job_schema();
  std::set<std::string_view> seen;
  for (const Alias& alias : aliases()) {
    INFO(alias.from);
    CHECK(field_at(root, alias.to) != nullptr);
    CHECK(field_at(root, alias.from) == nullptr);
    CHECK(seen.insert(alias.from).second);
  }
}

TEST_CASE("aliases: every one is moved to its field with a note", "[spec]") {
  for (const Alias& alias : aliases()) {
    if (alias.to.find('.') == std::string_view::npos) continue;
    INFO(alias.from);
    YamlNode root = map_node();
    YamlNode* at = &root;
    std::string_view rest = alias.from;
    for (std::size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1)) {
      put(*at, rest.substr(0, dot), map_node());
      at = at->find(rest.substr(0, dot));
    }
    put(*at, rest, scalar_node("7"));
    Diagnostics diagnostics;
    rename_aliases(root, diagnostics);
    const YamlNode* moved = find_path(root, std::string(alias.to));
    REQUIRE(moved != nullptr);
    CHECK(moved->text == "7");
    CHECK_FALSE(diagnostics.has_errors());
    CHECK_THAT(diagnostics.all().at(0).text(),
               Contains("warning") && Contains("read as " + std::string(alias.to)));
  }
}

TEST_CASE("aliases: a DeepSpeed, a torchtitan, a nanotron and a Hugging Face config", "[spec]") {
  CHECK(to_yaml(Renamed("train_batch_size: 8\ngradient_clipping: 1\n").tree) ==
        "batch:\n  global_batch_size: 8\noptimizer:\n  clip_grad: 1\n");
  CHECK(
      to_yaml(Renamed("training: {local_batch_size: 2, seq_len: 64, steps: 10, log_interval: 5}\n").tree) ==
      "data:\n  seq_length: 64\nbatch:\n  micro_batch_size: 2\ntrain:\n  duration: 10\n  log_interval: 5\n");
  CHECK(to_yaml(Renamed("tokens: {micro_batch_size: 2, sequence_length: 64, train_steps: 9}\n").tree) ==
        "data:\n  seq_length: 64\ntrain:\n  duration: 9\nbatch:\n  micro_batch_size: 2\n");
  CHECK(to_yaml(Renamed("model: {num_hidden_layers: 2, n_kv_heads: 1, rope_scaling: {rope_type: llama3}}\n")
                    .tree) ==
        "model:\n  rope_scaling:\n    type: llama3\n  num_layers: 2\n  num_kv_heads: 1\n");
}

TEST_CASE("aliases: one field under two names is an error with both places", "[spec]") {
  CHECK_THAT(Renamed("parallelism: {tp: 1, tp_size: 2}").messages(),
             Contains("job.yaml:1:22: parallelism.tp_size: another name of parallelism.tp, which is given at "
                      "job.yaml:1:19"));
  CHECK(Renamed("parallelism: {tp_size: 1, tensor_parallel_degree: 2}").diagnostics.has_errors());
  CHECK(Renamed("training: {log_interval: 1}\ntrain: {log_interval: 1}").diagnostics.has_errors());
}

TEST_CASE("aliases: a section and its alias may both be there", "[spec]") {
  const Renamed renamed("training: {log_interval: 1}\ntrain: {duration: 5}");
  CHECK_FALSE(renamed.diagnostics.has_errors());
  CHECK(to_yaml(renamed.tree) == "train:\n  duration: 5\n  log_interval: 1\n");
}

TEST_CASE("aliases: a strange shape is left for the reader to refuse", "[spec]") {
  for (const char* yaml : {"training: 5",
                           "training: [1]",
                           "batch: 5\ntrain_batch_size: 3",
                           "model: {rope_scaling: 3}",
                           "tokenizer: tok.json",
                           "parallelism:\ntp_size: 2"})
    CHECK_NOTHROW(Renamed(yaml));
}
