#include "llmtrain/parallel/gradient_reducer.hpp"

#include <utility>

#include "llmtrain/core/check.hpp"

namespace llmtrain {

GradientReducer::GradientReducer(Communicator& group, std::vector<at::Tensor> buffers)
    : group_(group), buffers_(std::move(buffers)), pending_(buffers_.size()) {
  for (const at::Tensor& buffer : buffers_)
    LLMTRAIN_CHECK(
        buffer.is_contiguous() && (buffer.scalar_type() == at::kFloat || buffer.scalar_type() == at::kDouble),
        "a main gradient buffer of {}; it is fp32 or fp64",
        c10::toString(buffer.scalar_type()));
}

void GradientReducer::on_gradient_ready(int segment) {
  LLMTRAIN_CHECK(segment >= 0 && segment < static_cast<int>(buffers_.size()),
                 "segment {} of {}",
                 segment,
                 buffers_.size());
  const auto index = static_cast<std::size_t>(segment);
  LLMTRAIN_CHECK(pending_[index] == nullptr, "segment {} was announced twice in one step", segment);
  pending_[index] = group_.all_reduce_async(buffers_[index], ReduceOp::kSum);
}

void GradientReducer::finish() {
  for (std::size_t segment = 0; segment < pending_.size(); ++segment)
    LLMTRAIN_CHECK(pending_[segment] != nullptr, "the gradient of segment {} was never announced", segment);
  // Backward goes from the last segment to the first, and so do the reductions.
  for (auto it = pending_.rbegin(); it != pending_.rend(); ++it) (*it)->wait();
  for (auto& pending : pending_) pending.reset();
}

}  // namespace llmtrain
