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
  const TensorTraffic training = training_traffic(model(), DType::kBf16, 10, 4);
  CHECK(training.all_reduce == Traffic{14, 14 * 10 * 32 * 2});
  CHECK(training.all_gather == Traffic{3, 10 * 24});  // chunks of 4, 4 and 2
  const TensorTraffic forward = forward_traffic(model(), DType::kFp32, 10, 64);
  CHECK(forward.all_reduce == Traffic{7, 7 * 10 * 32 * 4});
  CHECK(forward.all_gather == Traffic{1, 10 * 24});
  TensorTraffic both = training;
  both += forward;
  CHECK(both.all_reduce == Traffic{21, 14 * 10 * 32 * 2 + 7 * 10 * 32 * 4});
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
