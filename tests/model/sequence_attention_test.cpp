#include "llmtrain/model/sequence_attention.hpp"

#include <cmath>
#include <mutex>

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>

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

// Documents of every length from one token on, in two sequences that differ.
Documents documents_of(std::int64_t length) {
  Documents documents{.begins = {{}, {}}};
  for (std::int64_t at = 0, size = 1; at < length; at += size++) documents.begins[0].push_back(at);
  for (std::int64_t at = 0; at < length; at += 7) documents.begins[1].push_back(at);
  return documents;
}

// By the definition: a matrix of scores, and a softmax over what a query may see.
at::Tensor attended_by_mask(const QueryKeyValue& in, const Documents& documents) {
  const std::int64_t length = in.q.size(2);
  at::Tensor mask = at::full({2, 1, length, length}, -INFINITY, in.q.options());  // [b, 1, S, S]
  for (std::int64_t b = 0; b < 2; ++b) {
    std::vector<std::int64_t> begins = documents.begins[static_cast<std::size_t>(b)];
    begins.push_back(length);
    for (std::size_t d = 0; d + 1 < begins.size(); ++d)
      for (std::int64_t i = begins[d]; i < begins[d + 1]; ++i)
        mask[b][0][i].narrow(0, begins[d], i + 1 - begins[d]).zero_();
  }
  const std::int64_t groups = in.q.size(1) / in.k.size(1);
  const at::Tensor k = in.k.repeat_interleave(groups, 1);  // [b, n, S, d]
  const at::Tensor v = in.v.repeat_interleave(groups, 1);  // [b, n, S, d]
  return in.q.matmul(k.transpose(2, 3)).mul(kScale).add(mask).softmax(3).matmul(v);
}

struct Whole {
  QueryKeyValue in;
  Documents documents;
  at::Tensor d_out;
  at::Tensor out;
  AttentionGradients grads;
};

// As in the model: heads are neighbours inside a row.
at::Tensor random_heads(std::int64_t heads, std::int64_t rows, at::ScalarType type) {
  return at::randn({2, rows, heads, 8}, at::TensorOptions().dtype(at::kDouble)).to(type).transpose(1, 2);
}

Whole whole_sequences(const Case& c, at::ScalarType type, bool masked) {
  at::set_num_threads(1);
  Whole w{.in = {.q = random_heads(c.heads, c.length, type),
                 .k = random_heads(c.kv_heads, c.length, type),
                 .v = random_heads(c.kv_heads, c.length, type)},
          .documents = masked ? documents_of(c.length) : Documents(),
          .d_out = random_heads(c.heads, c.length, type),
          .out = {},
          .grads = {}};
  const Attended attended = causal_attention(w.in, kScale, {}, w.documents);
  w.out = attended.out;
  w.grads = attended.backward(w.d_out);
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
double error_of(const Case& c, at::ScalarType type, bool masked = false) {
  const Whole whole = whole_sequences(c, type, masked);
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
    const Attended attended = causal_attention(in, kScale, group, whole.documents);
    const AttentionGradients grads = attended.backward(own(whole.d_out, cut));
    require(attended.out.transpose(1, 2).is_contiguous(), "the output lies in rows");
    require(attended.out.scalar_type() == type, "the output has the type of its inputs");
    comms.world().barrier();
    const std::lock_guard lock(mutex);
    worst = std::max({worst,
                      error(attended.out, own(whole.out, cut)),
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

TEST_CASE("sequence attention: documents that end inside a sequence, cut or whole", "[model][ranks]") {
  for (const Case& c : cases()) {
    CAPTURE(static_cast<int>(c.method), c.ranks, c.length, c.heads, c.kv_heads);
    CHECK(error_of(c, at::kDouble, true) < 1e-12);
  }
}

TEST_CASE("sequence attention: tokens see their own document only", "[model]") {
  for (const auto& [heads, kv_heads] : {std::pair{4, 4}, std::pair{4, 2}}) {
    QueryKeyValue in{.q = random_heads(heads, 33, at::kDouble),
                     .k = random_heads(kv_heads, 33, at::kDouble),
                     .v = random_heads(kv_heads, 33, at::kDouble)};
    const Documents documents = documents_of(33);
    const Attended attended = causal_attention(in, kScale, {}, documents);
    CHECK(error(attended.out, attended_by_mask(in, documents)) < 1e-12);
    CHECK(error(attended.out, attention(in.q, in.k, in.v, true, kScale).out) > 1e-2);
    // A directional derivative by central differences, in all inputs at once.
    const at::Tensor d_out = random_heads(heads, 33, at::kDouble);
    const AttentionGradients grads = attended.backward(d_out);
    const QueryKeyValue to{.q = at::randn_like(in.q), .k = at::randn_like(in.k), .v = at::randn_like(in.v)};
    const auto moved = [&](double h) {
      const QueryKeyValue at_h{.q = in.q.add(to.q, h), .k = in.k.add(to.k, h), .v = in.v.add(to.v, h)};
      return attended_by_mask(at_h, documents).mul(d_out).sum().item<double>();
    };
    const double expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    const auto dot = [](const at::Tensor& x, const at::Tensor& y) { return x.mul(y).sum().item<double>(); };
    const double found = dot(grads.dq, to.q) + dot(grads.dk, to.k) + dot(grads.dv, to.v);
    CHECK(std::abs(found - expected) < 1e-6 * std::max(1.0, std::abs(expected)));
  }
}

TEST_CASE("sequence attention: fp32, bf16 and fp16 differ by their rounding only", "[model][ranks]") {
  for (const SequenceMethod method :
       {SequenceMethod::kRing, SequenceMethod::kUlysses, SequenceMethod::kAllGather}) {
    CAPTURE(static_cast<int>(method));
    CHECK(error_of({method, 4, 64, 4, 2}, at::kFloat) < 2e-5);
    CHECK(error_of({method, 4, 64, 4, 2}, at::kBFloat16) < 0.15);
    CHECK(error_of({method, 4, 64, 4, 2}, at::kHalf) < 0.02);
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
