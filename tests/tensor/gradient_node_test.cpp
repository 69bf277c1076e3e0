#include "llmtrain/tensor/gradient_node.hpp"

#include <memory>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "llmtrain/core/check.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("gradient node: closures chain with each other and with libtorch's own operators", "[tensor]") {
  const at::Tensor x = leaf_of(at::full({3}, 2.0, at::kDouble));
  at::Tensor y = x.detach() * 3.0;
  attach_backward(y, {x}, "Triple", [](const at::Tensor& g) { return std::vector<at::Tensor>{g * 3.0}; });
  const at::Tensor z = y * y + x;
  const at::Tensor grad = backward_through(z, at::ones({3}, at::kDouble), x);
  CHECK(grad.allclose(at::full({3}, 2.0 * 6.0 * 3.0 + 1.0, at::kDouble)));
}

TEST_CASE("gradient node: what the closure holds is freed once it has run, and without a run too",
          "[tensor]") {
  for (const bool run : {true, false}) {
    const auto held = std::make_shared<int>(1);
    {
      const at::Tensor x = leaf_of(at::ones({2}, at::kDouble));
      at::Tensor y = x.detach() * 2.0;
      attach_backward(
          y, {x}, "Held", [held](const at::Tensor& g) { return std::vector<at::Tensor>{g * 2.0}; });
      CHECK(held.use_count() == 2);
      if (run) backward_through(y, at::ones({2}, at::kDouble), x);
      if (run) CHECK(held.use_count() == 1);
    }
    CHECK(held.use_count() == 1);
  }
}

TEST_CASE("gradient node: no graph without a gradient to want, and one gradient per input", "[tensor]") {
  const at::Tensor plain = at::ones({2}, at::kDouble);
  at::Tensor y = plain * 2.0;
  attach_backward(y, {plain}, "None", [](const at::Tensor&) { return std::vector<at::Tensor>{}; });
  CHECK_FALSE(y.requires_grad());
  const at::Tensor x = leaf_of(plain);
  at::Tensor z = x.detach() * 2.0;
  attach_backward(z, {x}, "Wrong", [](const at::Tensor&) { return std::vector<at::Tensor>{}; });
  CHECK_THROWS(backward_through(z, at::ones({2}, at::kDouble), x));
}

TEST_CASE("tensor: expect_shape names the culprit", "[tensor]") {
  CHECK_NOTHROW(expect_shape(at::zeros({2, 3}), {2, kAnyExtent}, "x"));
  CHECK_THROWS_AS(expect_shape(at::zeros({2, 3}), {3, 2}, "x"), CheckFailure);
  CHECK_THROWS_AS(expect_shape({}, {3, 2}, "x"), CheckFailure);
}
