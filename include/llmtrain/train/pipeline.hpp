#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/model/model_chunk.hpp"
#include "llmtrain/schedule/flow.hpp"
#include "llmtrain/schedule/schedule.hpp"

// Carries out one stage's program of a pipeline schedule: any schedule that has passed the check, a pipeline
// of one stage too.
//
// Computation runs on the caller's thread, in the order of the program. Hidden states and their gradients
// travel behind it: a send never waits for its receiver, and on each link the next message is awaited while
// the one before it is computed with. Shapes are known beforehand. It knows no data, no optimizer and no
// reduction: who calls it brings micro-batches and hears when gradients of a segment are complete.
namespace llmtrain {

// Both over the pp axis; two groups, so that what goes towards the head and what comes back keep their own
// order.
struct PipelineGroups {
  Communicator& activations;
  Communicator& gradients;
};

// A hidden state of n sequences on this rank: [n x tokens_per_sequence / parts, width].
struct HiddenShape {
  std::int64_t tokens_per_sequence = 0;  // of this rank of an sp group
  int parts = 1;                         // tp ranks that keep a part of the tokens each
  std::int64_t width = 0;
  DType dtype = DType::kFp32;
};

// Messages of one link as they come in, in the order in which they are computed with.
class Inbox {
 public:
  // `shape`: of every message.
  Inbox(Communicator& group, int from, std::int64_t messages, std::vector<std::int64_t> shape, DType dtype);
  // Waits for the next message. Throws CommError.
  at::Tensor take();

 private:
  void post();

  Communicator& group_;
  int from_;
  std::int64_t left_;
  std::vector<std::int64_t> shape_;
  DType dtype_;
  at::Tensor buffer_;
  std::unique_ptr<Pending> pending_;
};

class Pipeline {
 public:
  // `chunks`: what `stage` holds, in the order of the model. The groups outlive this.
  Pipeline(Schedule schedule,
           int stage,
           std::vector<ModelChunk> chunks,
           const PipelineGroups& groups,
           const HiddenShape& hidden,
           Plant plant = Plant::kNone);

  // What a training step brings and hears.
  struct Step {
    std::int64_t rows = 0;  // sequences of every micro-batch
    std::function<const MicroBatch&(int micro_batch)> batch;
    std::function<double(int micro_batch)> gradient_seed;
    std::function<void(const Action&)> on_wait;    // before another stage's message is waited for
    std::function<void(const Action&)> on_action;  // before it is computed, its input at hand
    // After a micro-batch's gradients of a segment are complete; `last`: no more will be added in this step.
    std::function<void(SegmentIndex, bool last)> on_gradient_ready;
  };

  // Forward and backward of every micro-batch. The losses are those of this stage: nothing but on the one
  // with the head. Collective over the pipeline. Throws CommError.
  LossSums train(const Step& step);

  // Forward only, without gradients. A micro-batch without rows, which it must be on all stages then, takes
  // its turns and computes nothing. Collective over the pipeline, and over those that share weights.
  LossSums evaluate(int num_micro_batches, const std::function<MicroBatch(int micro_batch)>& batch);

  // Most micro-batches that were kept at once in the last call of train(), summed over chunks: what
  // in_flight() counts.
  int peak_in_flight() const { return peak_in_flight_; }

 private:
  using Handed = std::map<std::pair<int, int>, at::Tensor>;  // by (chunk, micro-batch) that takes it

  void open_inboxes(std::int64_t rows);
  std::vector<std::int64_t> message_shape(std::int64_t rows) const;
  Communicator& group_of(Payload payload) const;
  Handed& handed(Payload payload) { return handed_[static_cast<std::size_t>(payload)]; }

  // Of an input, where it comes from, if from anywhere.
  using Source = std::optional<Site>;
  bool is_elsewhere(const Source& source) const { return source && source->stage != stage_; }
  at::Tensor take_input(const Action& action, const Source& source);
  at::Tensor take_handed(const Action& action);
  void hand_on(const Action& action, at::Tensor output);
  void wait_for_sends();
  void compute(const Step& step, const Action& action, LossSums& sums);
  SegmentCallback callback_of(const Step& step, int chunk);
  void count_in_flight();

  LossSums evaluate_chunk(int chunk, int micro_batch, const MicroBatch& batch);

  Schedule schedule_;
  int stage_;
  std::vector<ModelChunk> chunks_;
  PipelineGroups groups_;
  HiddenShape hidden_;
  Plant plant_;
  std::map<Link, std::int64_t> incoming_;  // messages of a step, by link into this stage

  // Of the call under way.
  std::map<Link, Inbox> inboxes_;
  std::vector<std::unique_ptr<Pending>> sends_;
  Handed handed_[2];            // by payload: from one chunk of this stage to the next
  std::vector<int> completed_;  // by chunk: micro-batches whose weight gradients are made
  int peak_in_flight_ = 0;
};

}  // namespace llmtrain
