#include "llmtrain/train/pipeline.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ops/zeros_like.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/core/division.hpp"
#include "llmtrain/tensor/tensor.hpp"

namespace llmtrain {

Inbox::Inbox(
    Communicator& group, int from, std::int64_t messages, std::vector<std::int64_t> shape, DType dtype)
    : group_(group), from_(from), left_(messages), shape_(std::move(shape)), dtype_(dtype) {
  post();
}

void Inbox::post() {
  if (left_ == 0) return;
  --left_;
  buffer_ = empty_host(shape_, dtype_);  // [b s, h]
  pending_ = group_.recv_async(buffer_, from_);
}

at::Tensor Inbox::take() {
  LLMTRAIN_CHECK(pending_ != nullptr, "more messages are taken from stage {} than it sends", from_);
  pending_->wait();
  pending_.reset();
  at::Tensor message = std::move(buffer_);  // [b s, h]
  post();
  return message;
}

Pipeline::Pipeline(Schedule schedule,
                   int stage,
                   std::vector<ModelChunk> chunks,
                   const PipelineGroups& groups,
                   const HiddenShape& hidden,
                   Plant plant)
    : schedule_(std::move(schedule)),
      stage_(stage),
      chunks_(std::move(chunks)),
      groups_(groups),
      hidden_(hidden),
      plant_(plant) {
  LLMTRAIN_CHECK(static_cast<int>(chunks_.size()) == schedule_.map.num_chunks(),
                 "{} chunks on stage {} where the schedule has {}",
                 chunks_.size(),
                 stage_,
                 schedule_.map.num_chunks());
  LLMTRAIN_CHECK(groups_.activations.size() == schedule_.num_stages() && groups_.activations.rank() == stage_,
                 "stage {} of {} is rank {} of {} in the pipeline",
                 stage_,
                 schedule_.num_stages(),
                 groups_.activations.rank(),
                 groups_.activations.size());
  for (const auto& [link, traffic] : link_traffic(schedule_))
    if (link.to == stage_) incoming_.emplace(link, std::ssize(traffic.taken));
}

std::vector<std::int64_t> Pipeline::message_shape(std::int64_t rows) const {
  return {exact_div(rows * hidden_.tokens_per_sequence, std::int64_t{hidden_.parts}), hidden_.width};
}

Communicator& Pipeline::group_of(Payload payload) const {
  return payload == Payload::kActivation ? groups_.activations : groups_.gradients;
}

void Pipeline::open_inboxes(std::int64_t rows) {
  inboxes_.clear();
  for (const auto& [link, messages] : incoming_)
    inboxes_.try_emplace(
        link, group_of(link.payload), link.from, messages, message_shape(rows), hidden_.dtype);
}

LossSums Pipeline::train(const Step& step) {
  open_inboxes(step.rows);
  completed_.assign(chunks_.size(), 0);
  peak_in_flight_ = 0;
  LossSums sums;
  for (const Action& action : schedule_.program(stage_)) compute(step, action, sums);
  wait_for_sends();
  return sums;
}

void Pipeline::compute(const Step& step, const Action& action, LossSums& sums) {
  ModelChunk& chunk = chunks_[static_cast<std::size_t>(action.chunk)];
  const int m = action.micro_batch;
  const Source source = source_of(schedule_.map, stage_, action);
  if (is_elsewhere(source)) step.on_wait(action);
  const at::Tensor input = take_input(action, source);  // [b s, h]
  switch (action.kind) {
    case ActionKind::kForward: {
      const MicroBatch& batch = step.batch(m);
      step.on_action(action);
      const ChunkOutput output = chunk.forward(m, batch, input, step.gradient_seed(m));
      sums += output.loss;
      count_in_flight();
      hand_on(action, output.hidden);
      break;
    }
    case ActionKind::kBackward:
      step.on_action(action);
      hand_on(action, chunk.backward(m, input, callback_of(step, action.chunk)));
      break;
    case ActionKind::kInputGradient:
      step.on_action(action);
      hand_on(action, chunk.input_gradient(m, input));
      break;
    case ActionKind::kWeightGradient:
      step.on_action(action);
      chunk.weight_gradient(m, callback_of(step, action.chunk));
      break;
  }
  if (makes_weight_gradient(action.kind)) ++completed_[static_cast<std::size_t>(action.chunk)];
}

SegmentCallback Pipeline::callback_of(const Step& step, int chunk) {
  const bool last = completed_[static_cast<std::size_t>(chunk)] + 1 == schedule_.num_micro_batches;
  return [&step, last](SegmentIndex segment) { step.on_gradient_ready(segment, last); };
}

void Pipeline::count_in_flight() {
  int kept = 0;
  for (const ModelChunk& chunk : chunks_) kept += chunk.num_kept();
  peak_in_flight_ = std::max(peak_in_flight_, kept);
}

at::Tensor Pipeline::take_input(const Action& action, const Source& source) {
  if (!source) return {};
  if (!is_elsewhere(source)) return take_handed(action);
  return inboxes_.at({source->stage, stage_, payload_of(action.kind)}).take();  // [b s, h]
}

at::Tensor Pipeline::take_handed(const Action& action) {
  const Payload payload = payload_of(action.kind);
  const auto found = handed(payload).find({action.chunk, action.micro_batch});
  LLMTRAIN_CHECK(found != handed(payload).end(),
                 "{} comes before its input was made",
                 schedule_.notation(stage_, action));
  const at::Tensor input = found->second;  // [b s, h]
  handed(payload).erase(found);
  return input;
}

void Pipeline::hand_on(const Action& action, at::Tensor output) {
  const std::optional<Site> destination = destination_of(schedule_.map, stage_, action);
  if (!destination) return;
  const Payload payload = payload_of(action.kind);
  if (plant_ == Plant::kStageGradient && payload == Payload::kGradient && action.micro_batch == 0)
    output = at::zeros_like(output);  // [b s, h]
  if (destination->stage == stage_)
    handed(payload).emplace(std::pair(destination->chunk, action.micro_batch), output);
  else
    sends_.push_back(group_of(payload).send_async(output.contiguous(), destination->stage));
}

void Pipeline::wait_for_sends() {
  for (const std::unique_ptr<Pending>& send : sends_) send->wait();
  sends_.clear();
}

// Micro-batches in groups as large as the pipeline: a chunk's turn comes for all of a group, so that no stage
// waits for a micro-batch to come around again. On every link both ends follow the order (group, chunk,
// micro-batch).
LossSums Pipeline::evaluate(int num_micro_batches, const std::function<MicroBatch(int)>& batch) {
  LossSums sums;
  for (int first = 0; first < num_micro_batches; first += schedule_.num_stages()) {
    std::vector<MicroBatch> group;
    for (int m = first; m < std::min(first + schedule_.num_stages(), num_micro_batches); ++m)
      group.push_back(batch(m));
    for (int chunk = 0; chunk < static_cast<int>(chunks_.size()); ++chunk)
      for (std::size_t i = 0; i < group.size(); ++i)
        sums += evaluate_chunk(chunk, first + static_cast<int>(i), group[i]);
  }
  wait_for_sends();
  return sums;
}

LossSums Pipeline::evaluate_chunk(int chunk, int micro_batch, const MicroBatch& batch) {
  ModelChunk& computes = chunks_[static_cast<std::size_t>(chunk)];
  if (batch.tokens.size(0) == 0) {
    computes.pass_through();  // peers may need this rank's part of the weights
    return {};
  }
  const Action action{.kind = ActionKind::kForward, .chunk = chunk, .micro_batch = micro_batch};
  const Source source = source_of(schedule_.map, stage_, action);
  at::Tensor input;  // [b s, h]
  if (is_elsewhere(source))
    input = Inbox(groups_.activations, source->stage, 1, message_shape(batch.tokens.size(0)), hidden_.dtype)
                .take();
  else if (source)
    input = take_handed(action);
  const ChunkOutput output = computes.evaluate(batch, input);
  hand_on(action, output.hidden);
  return output.loss;
}

}  // namespace llmtrain
