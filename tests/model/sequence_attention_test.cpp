#include "llmtrain/model/sequence_attention.hpp"

#include <mutex>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>

#include "llmtrain/comm/mesh_comms.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// Attention over sequences that are cut, against attention over whole ones; ranks are threads.
using namespace llmtrain;
using namespace llmtrain::test;
using namespace std::chrono_literals;

namespace {

constexpr double kScale = 0.3;

struct Case {
  SequenceMethod method;
  int ranks;
  std::int64_t length;  // of the whole sequence
  std::int64_t heads;
  std::int64_t kv_heads;
};

struct Whole {
  QueryKeyValue in;
  at::Tensor d_out;
  AttentionResult out;
  AttentionGradients grads;
};

// As in the model: heads are neighbours inside a row.
at::Tensor random_heads(std::int64_t heads, std::int64_t rows, at::ScalarType type) {
  return at::randn({2, rows, heads, 8}, at::TensorOptions().dtype(at::kDouble)).to(type).transpose(1, 2);
}

Whole whole_sequences(const Case& c, at::ScalarType type) {
  at::set_num_threads(1);
  Whole w{.in = {.q = random_heads(c.heads, c.length, type),
                 .k = random_heads(c.kv_heads, c.length, type),
                 .v = random_heads(c.kv_heads, c.length, type)},
          .d_out = random_heads(c.heads, c.length, type),
          .out = {},
          .grads = {}};
  w.out = attention(w.in.q, w.in.k, w.in.v, true, kScale);
  w.grads = attention_backward(w.d_out, w.in.q, w.in.k, w.in.v, w.out, true, kScale);
  return w;
}

// The rows of a rank. [b, n, S, d] -> [b, n, s, d]
at::Tensor own(const at::Tensor& whole, const SequenceCut& cut) {
  std::vector<at::Tensor> parts;
  for (const TokenRun& run : cut.runs()) parts.push_back(whole.narrow(2, run.first, run.count));
  return at::cat(parts, 2);
}

double error(const at::Tensor& a, const at::Tensor& b) {
  return a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

// Largest error of the output and of all gradients over all ranks.
double error_of(const Case& c, at::ScalarType type) {
  const Whole whole = whole_sequences(c, type);
  double worst = 0;
  std::mutex mutex;
  spawn_ranks(c.ranks, [&](int rank, const auto& region) {
    at::set_num_threads(1);
    MeshComms comms({.shape = {.sp = c.ranks},
                     .global_rank = rank,
                     .region = region,
                     .timeout = 20s,
                     .check_calls = true});
    const SequenceGroup group(&comms.axis(Axis::kSequence), c.method);
    const SequenceCut cut = group.cut(c.length / c.ranks);
    const QueryKeyValue in{.q = own(whole.in.q, cut), .k = own(whole.in.k, cut), .v = own(whole.in.v, cut)};
    const Attended attended = causal_attention(in, kScale, group);
    const AttentionGradients grads = attended.backward(own(whole.d_out, cut));
    require(attended.out.transpose(1, 2).is_contiguous(), "the output lies in rows");
    require(attended.out.scalar_type() == type, "the output has the type of its inputs");
    comms.world().barrier();
    const std::lock_guard lock(mutex);
    worst = std::max({worst,
                      error(attended.out, own(whole.out.out, cut)),
                      error(grads.dq, own(whole.grads.dq, cut)),
                      error(grads.dk, own(whole.grads.dk, cut)),
                      error(grads.dv, own(whole.grads.dv, cut))});
  });
  return worst;
}

// Chunks of one, of odd and of many tokens; heads alone, in groups, and one for all.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const int ranks : {2, 3, 4})
    for (const std::int64_t chunk : {1, 5, 33})
      for (const auto& [heads, kv_heads] : {std::pair{4, 4}, std::pair{4, 2}, std::pair{6, 1}}) {
        list.push_back({SequenceMethod::kRing, ranks, 2 * ranks * chunk, heads, kv_heads});
        list.push_back({SequenceMethod::kAllGather, ranks, ranks * chunk, heads, kv_heads});
        if (heads % ranks == 0 && (kv_heads % ranks == 0 || ranks % kv_heads == 0))
          list.push_back({SequenceMethod::kUlysses, ranks, ranks * chunk, heads, kv_heads});
      }
  list.push_back({SequenceMethod::kUlysses, 4, 36, 16, 8});
  return list;
}

}  // namespace

TEST_CASE("sequence attention: every method equals whole sequences, forward and all gradients",
          "[model][ranks]") {
  for (const Case& c : cases()) {
    CAPTURE(static_cast<int>(c.method), c.ranks, c.length, c.heads, c.kv_heads);
    CHECK(error_of(c, at::kDouble) < 1e-12);
  }
}

TEST_CASE("sequence attention: fp32 and bf16 differ by their rounding only", "[model][ranks]") {
  for (const SequenceMethod method :
       {SequenceMethod::kRing, SequenceMethod::kUlysses, SequenceMethod::kAllGather}) {
    CAPTURE(static_cast<int>(method));
    CHECK(error_of({method, 4, 64, 4, 2}, at::kFloat) < 2e-5);
    CHECK(error_of({method, 4, 64, 4, 2}, at::kBFloat16) < 0.15);
  }
}

TEST_CASE("sequence attention: heads that do not divide are refused by ulysses", "[model][ranks]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    MeshComms comms({.shape = {.sp = 2}, .global_rank = rank, .region = region, .timeout = 20s});
    const SequenceGroup group(&comms.axis(Axis::kSequence), SequenceMethod::kUlysses);
    const at::Tensor three = random_heads(3, 4, at::kDouble);  // [b, 3, s, d]
    bool refused = false;
    try {
      causal_attention({.q = three, .k = three, .v = three}, kScale, group);
    } catch (const CheckFailure&) {
      refused = true;
    }
    require(refused, "three heads over two ranks");
  });
}
