#include "llmtrain/optim/optimizer.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/optim/adamw.hpp"
#include "llmtrain/optim/sgd.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

at::Tensor random(std::int64_t n, at::ScalarType type, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  const at::Tensor values = at::empty({n}, at::kDouble);
  for (std::int64_t i = 0; i < n; ++i) values.mutable_data_ptr<double>()[i] = normal(generator);
  return values.to(type);
}

// Weight and master share memory unless the weight is narrower.
OptimizerSlice make_slice(
    const std::string& name, std::int64_t n, at::ScalarType weight, bool decay, unsigned seed) {
  OptimizerSlice slice;
  slice.name = name;
  slice.master = random(n, weight == at::kDouble ? at::kDouble : at::kFloat, seed);
  slice.weight = slice.master.to(weight);  // the same tensor when the types agree
  slice.grad = random(n, slice.master.scalar_type(), seed + 1000);
  slice.decay = decay;
  return slice;
}

OptimizerSlice clone(const OptimizerSlice& slice) {
  OptimizerSlice copy = slice;
  copy.master = slice.master.clone();
  copy.weight = slice.weight.scalar_type() == slice.master.scalar_type() ? copy.master : slice.weight.clone();
  copy.grad = slice.grad.clone();
  return copy;
}

// AdamW as in its paper, one element at a time, in the type T.
template <class T>
struct ScalarAdamW {
  AdamWOptions o;
  std::vector<T> m, v;
  int t = 0;
  void step(T* p, const T* grad, std::size_t n, double lr, double scale, bool decay) {
    m.resize(n), v.resize(n), ++t;
    for (std::size_t i = 0; i < n; ++i) {
      const T g = grad[i] * T(scale);
      if (decay) p[i] *= T(1 - lr * o.weight_decay);
      m[i] = T(o.beta1) * m[i] + T(1 - o.beta1) * g;
      v[i] = T(o.beta2) * v[i] + T(1 - o.beta2) * g * g;
      const T m_hat = m[i] / T(1 - std::pow(o.beta1, t)), v_hat = v[i] / T(1 - std::pow(o.beta2, t));
      p[i] -= T(lr) * m_hat / (std::sqrt(v_hat) + T(o.eps));
    }
  }
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

template <class T>
void compare_adamw(at::ScalarType type, double tolerance) {
  const AdamWOptions options{.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  std::vector<OptimizerSlice> slices = {make_slice("a", 37, type, true, 1),
                                        make_slice("b", 5, type, false, 2)};
  std::vector<OptimizerSlice> reference = {clone(slices[0]), clone(slices[1])};
  ScalarAdamW<T> scalar[2] = {{options, {}, {}}, {options, {}, {}}};
  AdamW adamw(options, slices);
  for (unsigned k = 1; k <= 20; ++k) {
    for (std::size_t i = 0; i < 2; ++i) {
      slices[i].grad.copy_(random(slices[i].grad.numel(), type, k * 10 + static_cast<unsigned>(i)));
      scalar[i].step(reference[i].master.mutable_data_ptr<T>(),
                     slices[i].grad.const_data_ptr<T>(),
                     static_cast<std::size_t>(slices[i].grad.numel()),
                     1e-2 / k,
                     0.5,
                     reference[i].decay);
    }
    adamw.step(1e-2 / k, 0.5);
  }
  CHECK(adamw.count() == 20);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(largest_difference(slices[i].master, reference[i].master) < tolerance);
}

}  // namespace

TEST_CASE("adamw: equals the scalar formula over 20 steps", "[optim]") {
  compare_adamw<float>(at::kFloat, 2e-6);
  compare_adamw<double>(at::kDouble, 1e-14);
}

TEST_CASE("sgd: equals the scalar formula with and without momentum", "[optim]") {
  const double momentum = GENERATE(0.0, 0.9);
  OptimizerSlice slice = make_slice("a", 37, at::kDouble, true, 1);
  const OptimizerSlice reference = clone(slice);
  Sgd sgd({.momentum = momentum, .weight_decay = 0.5}, {slice});
  CHECK(sgd.state_names().size() == (momentum == 0 ? 0 : 1));
  std::vector<double> buffer(37);
  auto* p = reference.master.mutable_data_ptr<double>();
  for (unsigned k = 1; k <= 20; ++k) {
    slice.grad.copy_(random(37, at::kDouble, k));
    for (std::size_t i = 0; i < 37; ++i) {
      buffer[i] = momentum * buffer[i] + 0.25 * slice.grad.const_data_ptr<double>()[i];
      p[i] = p[i] * (1 - 0.1 * 0.5) - 0.1 * buffer[i];
    }
    sgd.step(0.1, 0.25);
  }
  CHECK(largest_difference(slice.master, reference.master) < 1e-14);
}

TEST_CASE("optimizer: narrow weights are their fp32 masters rounded to nearest even", "[optim]") {
  const at::ScalarType type = GENERATE(at::kBFloat16, at::kHalf);
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    OptimizerSpec spec;
    spec.name = kind;
    spec.momentum = 0.9;
    const OptimizerSlice low = make_slice("a", 5000, type, true, 3);
    OptimizerSlice high = clone(low);
    high.weight = high.master;
    const auto a = make_optimizer(spec, {low});
    const auto b = make_optimizer(spec, {high});
    for (int k = 0; k < 3; ++k) {
      a->step(0.01, 1);
      b->step(0.01, 1);
    }
    CHECK(at::equal(low.master, high.master));  // the weights' type changes nothing else
    CHECK(at::equal(low.weight, low.master.to(type)));
    for (const std::string& name : a->state_names()) CHECK(at::equal(a->state(0, name), b->state(0, name)));
  }
}

TEST_CASE("optimizer: rounding of ties, signs, infinities and NaN", "[optim]") {
  const at::ScalarType type = GENERATE(at::kBFloat16, at::kHalf);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0f,
                                     -0.0f,
                                     1.00390625f,
                                     1.01171875f,
                                     -1.00390625f,
                                     3.3895e38f,
                                     65519.0f,
                                     65520.0f,
                                     4e-8f,
                                     inf,
                                     -inf,
                                     std::numeric_limits<float>::quiet_NaN(),
                                     1e-40f};
  OptimizerSlice slice = make_slice("a", static_cast<std::int64_t>(values.size()), type, false, 1);
  std::copy(values.begin(), values.end(), slice.master.mutable_data_ptr<float>());
  slice.grad.zero_();
  Sgd sgd({}, {slice});
  sgd.step(0, 1);
  const at::Tensor expected = slice.master.to(type);
  CHECK(at::equal(slice.weight.isnan(), expected.isnan()));
  CHECK(at::equal(slice.weight.nan_to_num(7), expected.nan_to_num(7)));
}

// A second set of tensors stands for the device.
TEST_CASE("optimizer: with weights and gradients on a device, the host computes the same bits", "[optim]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const OptimizerSlice direct = make_slice("a", 5000, type, true, 3);
  OptimizerSlice staged = clone(direct);
  staged.device_weight = staged.weight.clone();
  staged.device_grad = direct.grad.clone();
  staged.grad = at::zeros_like(direct.grad);
  AdamW a({.weight_decay = 0.1}, {direct});
  AdamW b({.weight_decay = 0.1}, {staged});
  for (int k = 0; k < 3; ++k) {
    direct.grad.mul_(0.5);
    staged.device_grad.mul_(0.5);
    a.step(0.01, 0.7);
    b.step(0.01, 0.7);
    CHECK(at::equal(direct.weight, staged.device_weight));
  }
  CHECK(at::equal(direct.master, staged.master));
  CHECK(on_host(direct).weight.is_same(direct.weight));
  OptimizerSlice bad = staged;
  bad.device_weight = bad.device_weight.narrow(0, 0, 4999);
  CHECK_THROWS_AS(make_optimizer({}, {bad}), CheckFailure);
}

TEST_CASE("optimizer: a zero gradient leaves only the decay, and only where it is asked for", "[optim]") {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kSgd}) {
    OptimizerSpec spec;
    spec.name = kind;
    spec.weight_decay = 0.5;
    std::vector<OptimizerSlice> slices = {make_slice("matrix", 33, at::kFloat, true, 1),
                                          make_slice("norm", 33, at::kFloat, false, 2)};
    const OptimizerSlice matrix = clone(slices[0]), norm = clone(slices[1]);
    for (auto& slice : slices) slice.grad.zero_();
    make_optimizer(spec, slices)->step(0.1, 1);
    CHECK(at::equal(slices[0].master, matrix.master * 0.95f));
    CHECK(at::equal(slices[1].master, norm.master));
  }
}

TEST_CASE("optimizer: threads and cuts change no bit", "[optim]") {
  const at::ScalarType type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const std::int64_t n = 200000;
  const OptimizerSlice whole = make_slice("w", n, type, true, 4);
  const OptimizerSlice base = clone(whole);
  AdamW one({.weight_decay = 0.1}, {whole});
  std::vector<OptimizerSlice> cut;
  for (const auto& [begin, end] :
       {std::pair<std::int64_t, std::int64_t>{0, 7}, {7, 7}, {7, 99999}, {99999, n}})
    cut.push_back({fmt::format("w{}-{}", begin, end),
                   base.weight.narrow(0, begin, end - begin),
                   base.master.narrow(0, begin, end - begin),
                   base.grad.narrow(0, begin, end - begin),
                   true});
  AdamW many({.weight_decay = 0.1}, cut);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  for (int k = 0; k < 3; ++k) one.step(0.01, 0.3);
  at::set_num_threads(3);
  for (int k = 0; k < 3; ++k) many.step(0.01, 0.3);
  at::set_num_threads(threads);
  CHECK(at::equal(whole.master, base.master));
  CHECK(at::equal(whole.weight, base.weight));
  CHECK(at::equal(one.state(0, "exp_avg_sq").narrow(0, 7, 90000),
                  many.state(2, "exp_avg_sq").narrow(0, 0, 90000)));
}

TEST_CASE("optimizer: state and count carry a run over", "[optim]") {
  const OptimizerSlice straight = make_slice("a", 100, at::kFloat, true, 5);
  const OptimizerSlice resumed = clone(straight);
  const OptimizerSpec spec;
  const auto a = make_optimizer(spec, {straight});
  for (int k = 0; k < 6; ++k) a->step(0.01, 1);
  const auto before = make_optimizer(spec, {resumed});
  for (int k = 0; k < 3; ++k) before->step(0.01, 1);
  const auto after = make_optimizer(spec, {resumed});
  CHECK(after->state_names() == std::vector<std::string>{"exp_avg", "exp_avg_sq"});
  for (const std::string& name : after->state_names()) after->state(0, name).copy_(before->state(0, name));
  after->set_count(before->count());
  for (int k = 0; k < 3; ++k) after->step(0.01, 1);
  CHECK(after->count() == 6);
  CHECK(at::equal(straight.master, resumed.master));
}

TEST_CASE("optimizer: state is counted as allocated, gradients are not rewritten", "[optim]") {
  std::vector<OptimizerSlice> slices = {make_slice("a", 16, at::kBFloat16, true, 1),
                                        make_slice("b", 17, at::kBFloat16, true, 2)};
  const at::Tensor grad = slices[0].grad.clone();
  const auto adamw = make_optimizer({}, slices);
  CHECK(adamw->state_bytes() == 2 * (64 + 128));
  adamw->step(0.1, 0.5);
  CHECK(at::equal(slices[0].grad, grad));
  CHECK(make_optimizer({}, {})->state_bytes() == 0);
  make_optimizer({}, {})->step(0.1, 1);
}

TEST_CASE("optimizer: a list that breaks the contract is refused", "[optim]") {
  const auto refused = [](std::vector<OptimizerSlice> slices) {
    CHECK_THROWS_AS(make_optimizer({}, std::move(slices)), CheckFailure);
  };
  OptimizerSlice slice = make_slice("a", 8, at::kFloat, true, 1);
  refused({slice, slice});
  OptimizerSlice bad = slice;
  bad.weight = slice.weight.clone();  // two fp32 copies would drift apart
  refused({bad});
  bad = slice;
  bad.grad = slice.grad.to(at::kBFloat16);
  refused({bad});
  bad = slice;
  bad.grad = slice.grad.narrow(0, 0, 7);
  refused({bad});
  bad = slice;
  bad.grad = at::zeros({2, 4}, at::kFloat);
  refused({bad});
  refused({slice, make_slice("b", 8, at::kDouble, true, 1)});
  const auto adamw = make_optimizer({}, {slice});
  CHECK_THROWS_AS(adamw->set_count(-1), CheckFailure);
  CHECK_THROWS_AS(adamw->state(0, "momentum"), CheckFailure);
  CHECK_THROWS_AS(adamw->state(1, "exp_avg"), CheckFailure);
}
