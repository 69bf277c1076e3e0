#pragma once

#include <cstdint>
#include <memory>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/batch.hpp"

// A thread that keeps the next micro-batches of one rank ready.
//
// `next` hands them out in order: micro-batches 0.. of first_step, then of the step after. An error
// of reading arrives at the batch it belongs to and then stays. One consumer; destruction stops and
// joins the thread. The thread takes no signals.
namespace llmtrain {

class BatchLoader {
 public:
  struct Options {
    std::int64_t first_step = 1;  // from 1
    int prefetch = 4;             // batches kept ready; at least 1
  };

  // `samples` is shared: the thread reads it until it is joined.
  static Result<BatchLoader> start(std::shared_ptr<const SampleSet> samples,
                                   const BatchShape& shape,
                                   const Options& options);

  BatchLoader(BatchLoader&&) noexcept;
  BatchLoader& operator=(BatchLoader&&) noexcept;
  ~BatchLoader();

  Result<TokenBatch> next();
  // How long `next` has waited for data so far, in all.
  double waited_seconds() const;

 private:
  struct State;
  explicit BatchLoader(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace llmtrain
