#include "llmtrain/sizing/tensor_traffic.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

ModelSpec model() {
  ModelSpec m;
  m.vocab_size = 61;
  m.hidden_size = 32;
  m.num_layers = 3;
  m.num_heads = 4;
  m.num_kv_heads = 2;
  m.head_dim = 8;
  m.ffn_hidden_size = 48;
  m.max_position = 16;
  m.qkv_bias = true;
  m.qk_norm = true;
  return m;
}

}  // namespace

TEST_CASE("tensor traffic: activations and losses by hand", "[sizing]") {
  // Three blocks cross four borders each, embedding and head one each; 10 tokens of 32 numbers.
  const TensorTraffic training =
      training_traffic(model(), {.compute = DType::kBf16, .tokens = 10, .chunk_tokens = 4});
  CHECK(training.all_reduce == Traffic{14, 14 * 10 * 32 * 2});
  CHECK(training.all_gather == Traffic{3, 10 * 24});  // chunks of 4, 4 and 2
  const TensorTraffic forward = forward_traffic(model(), {.tokens = 10, .chunk_tokens = 64});
  CHECK(forward.all_reduce == Traffic{7, 7 * 10 * 32 * 4});
  CHECK(forward.all_gather == Traffic{1, 10 * 24});
  TensorTraffic both = training;
  both += forward;
  CHECK(both.all_reduce == Traffic{21, 14 * 10 * 32 * 2 + 7 * 10 * 32 * 4});
}

TEST_CASE("tensor traffic: a pipeline stage without embedding and head crosses the borders of its blocks",
          "[sizing]") {
  TensorPass pass{.tokens = 10, .chunk_tokens = 10, .has_embedding = false, .has_head = false};
  CHECK(training_traffic(model(), pass).all_reduce.calls == 12);
  CHECK(training_traffic(model(), pass).all_gather == Traffic{});
  CHECK(forward_traffic(model(), pass).all_reduce.calls == 6);
  pass.has_head = true;
  CHECK(training_traffic(model(), pass).all_reduce.calls == 13);
  CHECK(forward_traffic(model(), pass).all_reduce.calls == 6);
}

TEST_CASE("tensor traffic: a sharded sequence, by hand", "[sizing]") {
  const TensorPass pass{
      .compute = DType::kFp32, .tp = 4, .shard_sequence = true, .tokens = 12, .chunk_tokens = 12};
  const TensorTraffic training = training_traffic(model(), pass);
  CHECK(training.all_reduce == Traffic{});
  CHECK(training.reduce_scatter == Traffic{14, 14 * 12 * 32 * 4});
  CHECK(training.all_gather == Traffic{20 + 1, 20 * 3 * 32 * 4 + 12 * 24});  // three tokens of each rank
  const TensorTraffic forward = forward_traffic(model(), pass);
  CHECK(forward.reduce_scatter.calls == 7);
  CHECK(forward.all_gather.calls == 7 + 1);
  // Norms see a part of the tokens: two in each block and the last one, beside two inside heads.
  const auto table = parameter_table(model(), {.shard_sequence = true});
  CHECK(replica_traffic(table, DType::kFp32, 2).group == Traffic{1 + 7 + 6, 8 + (7 * 32 + 6 * 8) * 4});
}

TEST_CASE("tensor traffic: blocks that are computed again, by hand", "[sizing]") {
  TensorPass pass{.tp = 4, .tokens = 12, .chunk_tokens = 12, .recomputed_in_full = 2};
  CHECK(training_traffic(model(), pass).all_reduce == Traffic{14 + 2, 16 * 12 * 32 * 4});
  pass.shard_sequence = true;
  CHECK(training_traffic(model(), pass).reduce_scatter.calls == 14 + 2);
  CHECK(training_traffic(model(), pass).all_gather.calls == 20 + 1 + 2 * 2);
  CHECK(forward_traffic(model(), pass).reduce_scatter.calls == 7);
}

TEST_CASE("tensor traffic: chunks are the same bytes in more calls, by hand", "[sizing]") {
  TensorPass pass{.tp = 4, .tokens = 12, .chunk_tokens = 12, .recomputed_in_full = 1};
  const TensorTraffic at_once = training_traffic(model(), pass);
  pass.overlap_chunks = 5;
  // Six halves and one again forward, six halves and both ends at once.
  CHECK(training_traffic(model(), pass).all_reduce == Traffic{5 * 7 + 8, at_once.all_reduce.bytes});
  CHECK(forward_traffic(model(), pass).all_reduce.calls == 5 * 6 + 1);
  // Three tokens of each rank are three chunks at most.
  pass.shard_sequence = true;
  const TensorTraffic training = training_traffic(model(), pass);
  CHECK(training.reduce_scatter == Traffic{3 * 7 + 8, at_once.all_reduce.bytes});
  CHECK(training.all_gather.calls == 3 * (12 + 2) + 8 + 1);
  CHECK(forward_traffic(model(), pass).all_gather.calls == 3 * 6 + 1 + 1);
}

TEST_CASE("tensor traffic: gradients that replicas see parts of, by hand", "[sizing]") {
  const auto table = parameter_table(model());
  CHECK(replica_traffic(table, DType::kFp32, 1) == ReplicaTraffic{});
  // Two norms of eight in each of three blocks, and the squared norm.
  const Traffic norms{7, 6 * 8 * 4 + 8};
  CHECK(replica_traffic(table, DType::kFp32, 2) == ReplicaTraffic{.group = norms});
  // Four ranks for two key/value heads: of each block the matrices and biases of one key and one value head.
  CHECK(replica_traffic(table, DType::kBf16, 4) ==
        ReplicaTraffic{.group = norms, .replicas = {12, 3 * 2 * (8 * 32 + 8) * 4}});
}
