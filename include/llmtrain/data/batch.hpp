#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/sample_set.hpp"

// Which samples one rank reads for one micro-batch: pure arithmetic over the global sample index.
//
// Step k (from 1), micro-batch m, data-parallel rank r, row j reads global sample
// (k-1)*G + m*(dp*mb) + r*mb + j, so the samples of a step depend on G alone.
namespace llmtrain {

struct BatchShape {
  std::int64_t global_batch_size = 1;  // G, in samples; a multiple of dp_size * micro_batch_size
  std::int64_t micro_batch_size = 1;   // mb
  int dp_rank = 0;
  int dp_size = 1;
  bool finds_documents = false;  // for a mask: where they begin in each row

  std::int64_t num_micro_batches() const { return global_batch_size / (micro_batch_size * dp_size); }
};

struct TokenBatch {
  std::vector<std::int32_t> tokens;                        // [rows, S+1] row-major
  std::vector<std::int64_t> sample_ids;                    // of SampleSet::sample_id, one a row
  std::vector<std::vector<std::int64_t>> document_begins;  // of SampleSet, one a row; empty unless asked for
  std::int64_t step = 0;                                   // from 1
  std::int64_t micro_batch = 0;                            // within the step
  int rows = 0;
};

Status check_shape(const BatchShape& shape);

std::int64_t global_sample_index(const BatchShape& shape,
                                 std::int64_t step,
                                 std::int64_t micro_batch,
                                 std::int64_t row);

// An error when the samples are exhausted (every source has an epoch cap) or cannot be read.
Result<TokenBatch> load_batch(const SampleSet& samples,
                              const BatchShape& shape,
                              std::int64_t step,
                              std::int64_t micro_batch);

// One sample of a step, for people who want to see what a run reads; the same for every layout.
struct StepSample {
  std::int64_t index = 0;  // the global sample index
  SampleRef ref;
  std::int64_t sample_id = 0;
  std::vector<std::int32_t> tokens;  // seq_length + 1
};
Result<std::vector<StepSample>> samples_of_step(const SampleSet& samples,
                                                std::int64_t global_batch_size,
                                                std::int64_t step);

// A fixed set for evaluation: the first min(asked, available) samples of a sequential set, each on
// exactly one rank. Every rank makes num_micro_batches calls; a late one may hold fewer rows, or none.
class EvalPlan {
 public:
  EvalPlan(const SampleSet& samples, std::int64_t asked, BatchShape shape);

  std::int64_t num_samples() const { return num_samples_; }
  std::int64_t num_micro_batches() const;
  Result<TokenBatch> load(std::int64_t micro_batch) const;

 private:
  const SampleSet* samples_;
  BatchShape shape_;
  std::int64_t num_samples_;
};

}  // namespace llmtrain
