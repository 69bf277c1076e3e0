#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"

// Sums the main gradients of all data-parallel ranks while the backward pass still runs.
//
// One flat buffer per segment of the model (embedding, each block, head) is one bucket, or several where a
// limit is set: its reduction starts
// when backward is through with that segment, and runs behind the segments before it. Nothing is divided: the
// loss is scaled before backward. By what is sharded, a segment is reduced
// - once a step, in place, and every rank gets the whole sum;
// - once a step, in place, and a rank gets the sum of its own part;
// - after every micro-batch, in a lane that the next segment takes over, and a rank adds up its own part.
// Where several groups of ranks hold a copy of sharded state each, own parts are then summed over the copies,
// once a step. Gradients may travel in a narrower type than they are kept in: a segment under way then has a
// copy in that type, and what comes back is rounded once. It calls no model and no optimizer.
namespace llmtrain {

struct ReducerOptions {
  std::optional<DType> wire{};  // in which gradients travel; none: the one they are kept in
  bool overlap = true;          // false: a segment is reduced before the one below it is computed
  std::optional<std::int64_t> bucket_size{};  // elements of one all_reduce at most; none: a whole segment
};

class GradientReducer {
 public:
  // `group`: all ranks that gradients are summed over, or those that share one copy of sharded state; then
  // `copies` are the ranks that own the same part. All outlive the reducer.
  GradientReducer(FlatParameters& parameters,
                  Communicator& group,
                  Communicator& copies,
                  const ReducerOptions& options = {});

  // Whether a segment is ready after each micro-batch, or after the last one of a step only.
  bool reduces_every_pass() const { return parameters_.zero().shards_gradients(); }
  // Before anything is added to the gradients of a segment, or of one that it borrows from. Where they have
  // no lasting memory, waits until a lane is free and clears it; ready segments come back as empty ones.
  void prepare(SegmentIndex segment);
  // In the same order on all ranks. The buffer is not to be touched until finish(), or until it is prepared
  // again.
  void on_gradient_ready(SegmentIndex segment);
  // Waits until every segment is reduced. A segment that was not announced in this step would keep a local
  // gradient: that is a broken invariant. Throws CommError when a peer is lost; the gradients are void then.
  void finish();

 private:
  // A reduction that has started, and where its result goes.
  struct UnderWay {
    at::Tensor kept;  // [n] main type
    at::Tensor sent;  // [n] wire type; the same memory when the types agree
    std::vector<std::unique_ptr<Pending>> buckets{};
  };

  at::Tensor as_sent(const at::Tensor& kept) const;
  UnderWay start(SegmentIndex segment, const at::Tensor& whole);
  UnderWay sum_in_place(Communicator& group, const at::Tensor& kept);
  static void finish(UnderWay& reduction);
  void settle(SegmentIndex segment);
  void sum_over_copies();

  FlatParameters& parameters_;
  Communicator& group_;
  Communicator& copies_;
  ReducerOptions options_;
  DType wire_;
  std::vector<std::optional<UnderWay>> under_way_;  // by segment
  std::vector<bool> announced_;                     // by segment, in this step
};

}  // namespace llmtrain
