#include "llmtrain/data/batch.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

std::int64_t micro_batch_width(const BatchShape& shape) {
  return shape.micro_batch_size * shape.dp_size;
}

Status read_row(const SampleSet& samples, const BatchShape& shape, std::int64_t index, TokenBatch& batch) {
  const SampleRef ref = samples.at(index);
  const std::size_t width = static_cast<std::size_t>(samples.seq_length() + 1);
  batch.tokens.resize(batch.tokens.size() + width);
  batch.sample_ids.push_back(samples.sample_id(ref));
  if (shape.finds_documents) batch.document_begins.push_back(samples.document_begins(ref));
  ++batch.rows;
  return samples.read(ref, std::span(batch.tokens).last(width));
}

}  // namespace

Status check_shape(const BatchShape& shape) {
  const std::int64_t width = micro_batch_width(shape);
  if (shape.micro_batch_size < 1 || shape.dp_size < 1 || shape.dp_rank < 0 ||
      shape.dp_rank >= shape.dp_size) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("micro-batch {} on data-parallel rank {} of {} is not a batch shape",
                             shape.micro_batch_size,
                             shape.dp_rank,
                             shape.dp_size),
                 "sizes start at 1, ranks at 0"};
  }
  if (shape.global_batch_size < width || shape.global_batch_size % width != 0) {
    return Error{ErrorCode::kInvalidSpec,
                 fmt::format("global batch {} is no multiple of micro-batch {} x dp {} = {}",
                             shape.global_batch_size,
                             shape.micro_batch_size,
                             shape.dp_size,
                             width),
                 "change batch.global_batch_size or batch.micro_batch_size"};
  }
  return ok_status();
}

std::int64_t global_sample_index(const BatchShape& shape,
                                 std::int64_t step,
                                 std::int64_t micro_batch,
                                 std::int64_t row) {
  return (step - 1) * shape.global_batch_size + micro_batch * micro_batch_width(shape) +
         shape.dp_rank * shape.micro_batch_size + row;
}

Result<TokenBatch> load_batch(const SampleSet& samples,
                              const BatchShape& shape,
                              std::int64_t step,
                              std::int64_t micro_batch) {
  LLMTRAIN_CHECK(step >= 1 && micro_batch >= 0 && micro_batch < shape.num_micro_batches(),
                 "step {}, micro-batch {} of {}",
                 step,
                 micro_batch,
                 shape.num_micro_batches());
  const auto size = samples.size();
  if (size && step * shape.global_batch_size > *size) {
    return Error{
        ErrorCode::kData,
        fmt::format("step {} needs samples up to {}, and max_epochs of every source ends the data at {}",
                    step,
                    step * shape.global_batch_size,
                    *size),
        "raise max_epochs, or shorten train.duration"};
  }
  TokenBatch batch;
  batch.step = step;
  batch.micro_batch = micro_batch;
  for (std::int64_t row = 0; row < shape.micro_batch_size; ++row) {
    LLMTRAIN_TRY(read_row(samples, shape, global_sample_index(shape, step, micro_batch, row), batch));
  }
  return batch;
}

Result<std::vector<StepSample>> samples_of_step(const SampleSet& samples,
                                                std::int64_t global_batch_size,
                                                std::int64_t step) {
  const BatchShape one_rank{.global_batch_size = global_batch_size, .micro_batch_size = global_batch_size};
  LLMTRAIN_ASSIGN(batch, load_batch(samples, one_rank, step, 0));
  const auto width = samples.seq_length() + 1;
  std::vector<StepSample> list;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    const std::int64_t index = global_sample_index(one_rank, step, 0, row);
    const auto begin = batch.tokens.begin() + row * width;
    list.push_back(
        {index, samples.at(index), batch.sample_ids[static_cast<std::size_t>(row)], {begin, begin + width}});
  }
  return list;
}

EvalPlan::EvalPlan(const SampleSet& samples, std::int64_t asked, BatchShape shape)
    : samples_(&samples), shape_(shape), num_samples_(std::min(asked, samples.size().value_or(asked))) {}

std::int64_t EvalPlan::num_micro_batches() const {
  return ceil_div(num_samples_, micro_batch_width(shape_));
}

Result<TokenBatch> EvalPlan::load(std::int64_t micro_batch) const {
  TokenBatch batch;
  batch.micro_batch = micro_batch;
  for (std::int64_t row = 0; row < shape_.micro_batch_size; ++row) {
    const std::int64_t index = global_sample_index(shape_, 1, micro_batch, row);
    if (index < num_samples_) LLMTRAIN_TRY(read_row(*samples_, shape_, index, batch));
  }
  return batch;
}

}  // namespace llmtrain
