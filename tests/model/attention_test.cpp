#include "llmtrain/model/attention.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include "llmtrain/tensor/gradient_node.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

struct Case {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t queries;
  std::int64_t keys;
  std::int64_t width;
  bool causal;
};

struct Inputs {
  at::Tensor q, k, v, d_out;
};

Inputs inputs(const Case& c, at::ScalarType type) {
  at::set_num_threads(1);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  // As in the model: heads are neighbours inside a row.
  const auto make = [&](std::int64_t heads, std::int64_t rows) {
    return at::randn({2, rows, heads, c.width}, options).to(type).transpose(1, 2);
  };
  return {
      make(c.heads, c.queries), make(c.kv_heads, c.keys), make(c.kv_heads, c.keys), make(c.heads, c.queries)};
}

struct Dense {
  at::Tensor out, lse;
};

// The textbook, in the type of its inputs.
Dense dense(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool causal, double scale) {
  const std::int64_t groups = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(groups, 1);
  const at::Tensor values = v.repeat_interleave(groups, 1);
  at::Tensor scores = at::matmul(q, keys.transpose(2, 3)) * scale;
  if (causal) {
    const at::Tensor hidden = at::ones({q.size(2), k.size(2)}, at::kBool).triu(k.size(2) - q.size(2) + 1);
    scores = scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return {at::matmul(at::softmax(scores, -1), values), at::logsumexp(scores, {-1})};
}

// The largest difference in units of the largest expected value: what a type's precision bounds on any CPU.
double error(const at::Tensor& a, const at::Tensor& expected) {
  const at::Tensor difference = (a.to(at::kDouble) - expected.to(at::kDouble)).abs().max();
  return (difference / expected.to(at::kDouble).abs().max().clamp_min(1.0)).item<double>();
}

const std::vector<Case> kCases = {{4, 4, 9, 9, 8, true},
                                  {4, 2, 9, 9, 8, true},
                                  {6, 1, 33, 33, 16, true},
                                  {4, 2, 1, 13, 8, true},
                                  {4, 2, 5, 13, 8, true},
                                  {4, 4, 7, 11, 8, false},
                                  {2, 2, 130, 130, 64, true},
                                  {3, 3, 65, 65, 20, true}};

}  // namespace

TEST_CASE("attention: output and log-sum-exp equal the textbook, also with shared key heads", "[model]") {
  for (const Case& c : kCases) {
    INFO("heads " << c.heads << "/" << c.kv_heads << " queries " << c.queries << " keys " << c.keys);
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-13}, std::pair{at::kFloat, 1e-5}, std::pair{at::kBFloat16, 3e-2}}) {
      const Inputs in = inputs(c, type);
      const AttentionResult result = attention(in.q, in.k, in.v, c.causal, 0.3);
      const Dense expected =
          dense(in.q.to(at::kDouble), in.k.to(at::kDouble), in.v.to(at::kDouble), c.causal, 0.3);
      CHECK(error(result.out, expected.out) < tolerance);
      CHECK(error(result.lse, expected.lse) < tolerance);
      CHECK(result.out.transpose(1, 2).is_contiguous());
      CHECK(result.lse.scalar_type() == (type == at::kDouble ? at::kDouble : at::kFloat));
    }
  }
}

TEST_CASE("attention: gradients equal those of the textbook", "[model]") {
  for (const Case& c : kCases) {
    INFO("heads " << c.heads << "/" << c.kv_heads << " queries " << c.queries << " keys " << c.keys);
    for (const auto& [type, tolerance] :
         {std::pair{at::kDouble, 1e-12}, std::pair{at::kFloat, 2e-5}, std::pair{at::kBFloat16, 0.15}}) {
      const Inputs in = inputs(c, type);
      const AttentionResult result = attention(in.q, in.k, in.v, c.causal, 0.3);
      const AttentionGradients grads = attention_backward(in.d_out, in.q, in.k, in.v, result, c.causal, 0.3);
      const at::Tensor q = leaf_of(in.q.to(at::kDouble));
      const at::Tensor k = leaf_of(in.k.to(at::kDouble));
      const at::Tensor v = leaf_of(in.v.to(at::kDouble));
      const at::Tensor d_out = in.d_out.to(at::kDouble);
      CHECK(error(grads.dq, backward_through(dense(q, k, v, c.causal, 0.3).out, d_out, q)) < tolerance);
      CHECK(error(grads.dk, backward_through(dense(q, k, v, c.causal, 0.3).out, d_out, k)) < tolerance);
      CHECK(error(grads.dv, backward_through(dense(q, k, v, c.causal, 0.3).out, d_out, v)) < tolerance);
    }
  }
}

TEST_CASE("attention: backward with the merged result gives each key block its share", "[model]") {
  const Case c{4, 2, 6, 12, 8, false};
  const Inputs in = inputs(c, at::kDouble);
  const AttentionResult whole = attention(in.q, in.k, in.v, false, 0.3);
  const AttentionGradients expected = attention_backward(in.d_out, in.q, in.k, in.v, whole, false, 0.3);
  at::Tensor dq = at::zeros_like(expected.dq);
  for (const std::int64_t first : {0, 7}) {
    const std::int64_t count = first == 0 ? 7 : 5;
    const AttentionGradients part = attention_backward(
        in.d_out, in.q, in.k.narrow(2, first, count), in.v.narrow(2, first, count), whole, false, 0.3);
    dq += part.dq;
    CHECK(error(part.dk, expected.dk.narrow(2, first, count)) < 1e-13);
    CHECK(error(part.dv, expected.dv.narrow(2, first, count)) < 1e-13);
  }
  CHECK(error(dq, expected.dq) < 1e-13);
}
