#pragma once

#include <utility>
#include <vector>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "llmtrain/kernels/row_kernels.hpp"
#include "llmtrain/tensor/tensor.hpp"

// From tensors to the row kernels: element type, raw pointers, rows split over threads.
namespace llmtrain {

// Calls body(T{}) with the kernels' element type.
template <class Body>
void dispatch_rows(const at::Tensor& x, Body&& body) {
  switch (x.scalar_type()) {
    case at::kFloat: return body(float{});
    case at::kDouble: return body(double{});
    case at::kBFloat16: return body(Bf16{});
    case at::kHalf: return body(Fp16{});
    default: throw std::invalid_argument(std::string("no kernels for ") + c10::toString(x.scalar_type()));
  }
}

template <class T>
T* pointer(const at::Tensor& x) {
  return static_cast<T*>(x.data_ptr());
}

// body(begin, end) over [0, rows) on the compute threads; a piece is worth about `cols` x 4096 elements.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t cols, Body&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(cols, 1));
  at::parallel_for(0, rows, grain, body);
}

// Sums that every thread collects for itself and that are then added in thread order, so that the
// result depends on the number of threads only.
template <class A>
class ThreadSums {
 public:
  explicit ThreadSums(std::int64_t width)
      : width_(width), sums_(static_cast<std::size_t>(width * at::get_num_threads()), A(0)) {}

  A* mine() { return sums_.data() + at::get_thread_num() * width_; }
  void add_to(A* out) const {
    for (std::size_t i = 0; i < sums_.size(); ++i) out[static_cast<std::int64_t>(i) % width_] += sums_[i];
  }

 private:
  std::int64_t width_;
  std::vector<A> sums_;
};

}  // namespace llmtrain
