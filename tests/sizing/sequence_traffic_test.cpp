#include "llmtrain/sizing/sequence_traffic.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

ModelSpec model() {
  ModelSpec m;
  m.hidden_size = 32;
  m.num_layers = 3;
  m.num_heads = 8;
  m.num_kv_heads = 2;
  m.head_dim = 4;
  return m;
}

}  // namespace

TEST_CASE("sequence traffic: ring, by hand", "[sizing]") {
  const SequencePass pass{.compute = DType::kBf16, .sp = 4, .tokens = 10};
  const std::int64_t block = 2 * 2 * 4 * 10 * 2;  // keys and values, two heads of four, ten tokens
  CHECK(forward_traffic(model(), pass).send_recv == Traffic{3 * 3, 9 * block});
  CHECK(training_traffic(model(), pass).send_recv == Traffic{18 + 12, 18 * block + 12 * 2 * block});
  CHECK(training_traffic(model(), pass).all_gather == Traffic{});
  SequenceTraffic both = training_traffic(model(), pass);
  both += forward_traffic(model(), pass);
  CHECK(both.send_recv == Traffic{39, 27 * block + 24 * block});
}

TEST_CASE("sequence traffic: allgather, by hand", "[sizing]") {
  const SequencePass pass{
      .method = SequenceMethod::kAllGather, .compute = DType::kFp32, .sp = 2, .tp = 4, .tokens = 10};
  const std::int64_t block = 2 * 1 * 4 * 10 * 4;  // four tp ranks for two heads: one each
  const SequenceTraffic traffic = training_traffic(model(), pass);
  CHECK(traffic.all_gather == Traffic{6, 6 * block});
  CHECK(traffic.reduce_scatter == Traffic{3, 3 * 2 * block});
  CHECK(forward_traffic(model(), pass) == SequenceTraffic{.all_gather = {3, 3 * block}});
}

TEST_CASE("sequence traffic: ulysses, by hand, also with fewer key heads than ranks", "[sizing]") {
  SequencePass pass{.method = SequenceMethod::kUlysses, .compute = DType::kFp64, .sp = 2, .tokens = 10};
  CHECK(forward_traffic(model(), pass).all_to_all == Traffic{6, 3 * (8 + 4 + 8) * 4 * 10 * 8});
  CHECK(training_traffic(model(), pass).all_to_all == Traffic{12, 6 * (8 + 4 + 8) * 4 * 10 * 8});
  pass.sp = 4;  // two key heads for four ranks: one of each kind to every rank
  CHECK(forward_traffic(model(), pass).all_to_all == Traffic{6, 3 * (8 + 8 + 8) * 4 * 10 * 8});
}

TEST_CASE("sequence traffic: blocks that are computed again, by hand", "[sizing]") {
  const std::int64_t block = 2 * 2 * 4 * 10 * 2;
  SequencePass pass{.compute = DType::kBf16, .sp = 4, .tokens = 10, .recomputed = 2};
  CHECK(training_traffic(model(), pass).send_recv == Traffic{18 + 6 + 12, 24 * block + 12 * 2 * block});
  CHECK(forward_traffic(model(), pass).send_recv == Traffic{9, 9 * block});
  pass.method = SequenceMethod::kUlysses;
  CHECK(training_traffic(model(), pass).all_to_all.calls == 12 + 2 * 2);
  pass.method = SequenceMethod::kAllGather;
  CHECK(training_traffic(model(), pass).all_gather.calls == 6 + 2);
  CHECK(training_traffic(model(), pass).reduce_scatter.calls == 3);
}

TEST_CASE("sequence traffic: one rank sends nothing", "[sizing]") {
  CHECK(training_traffic(model(), {.method = SequenceMethod::kRing, .sp = 1, .tokens = 10}) ==
        SequenceTraffic{});
}
