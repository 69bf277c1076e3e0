#include "tests/spec/read_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::Read;

TEST_CASE("hints: an unknown key is named in full, with the key that was meant", "[spec]") {
  const struct {
    const char* yaml;
    const char* message;
  } cases[] = {
      {"model:\n  num_layer: 2\n",
       "job.yaml:2:3: model.num_layer: unknown key; did you mean model.num_layers?"},
      {"model: {hiden_size: 2}", "did you mean model.hidden_size?"},
      {"modle: {}", "job.yaml:1:1: modle: unknown key; did you mean model?"},
      {"data: {seq-length: 8}", "did you mean data.seq_length?"},
      {"data: {Seq_Length: 8}", "did you mean data.seq_length?"},
      {"lr: 1e-4", "lr: unknown key; it belongs at optimizer.lr"},
      {"train: {lr: 1e-4}", "train.lr: unknown key; it belongs at optimizer.lr"},
      {"optimizer: {micro_batch_size: 3}", "it belongs at batch.micro_batch_size"},
      {"model: {factor: 2}", "it belongs at model.rope_scaling.factor"},
      {"data: {train: [{path: a}, {wieght: 2}]}",
       "data.train[1].wieght: unknown key; did you mean data.train[].weight?"},
      {"checkpoint: {frobnicate: 1}",
       "unknown key; known here: interval, keep_last, keep_every, save_initial, resume"},
      {"planner: {budget: 1}", "planner: unknown key; known here: version, run, model"},
  };
  for (const auto& refused : cases) {
    const Read read(refused.yaml);
    INFO(refused.yaml);
    CHECK_THAT(read.messages(), Contains(refused.message));
  }
}

TEST_CASE("hints: an absurd key is shown shortened", "[spec]") {
  const Read read(std::string(5000, 'x') + "y: 1");
  CHECK(read.count() == 1);
  CHECK(read.messages().size() < 400);
}
