#include "llmtrain/train/trainer.hpp"

#include <chrono>
#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/data/batch_loader.hpp"
#include "llmtrain/job/lr_schedule.hpp"
#include "llmtrain/optim/gradient_scale.hpp"
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/parallel/gradient_reducer.hpp"
#include "llmtrain/parallel/parameter_gather.hpp"
#include "llmtrain/parallel/replica_gradients.hpp"
#include "llmtrain/parallel/tied_gradients.hpp"
#include "llmtrain/train/checkpointer.hpp"
#include "llmtrain/train/control_channel.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/evaluator.hpp"
#include "llmtrain/train/faults.hpp"
#include "llmtrain/train/gradient_norm.hpp"
#include "llmtrain/train/micro_batch.hpp"
#include "llmtrain/train/pipeline.hpp"
#include "llmtrain/train/step_reporter.hpp"

namespace llmtrain {

// A scale that was saved goes on; other types need none.
Trainer::Trainer(TrainerParts parts, Progress progress) : p_(parts), progress_(progress) {
  const PrecisionSpec& precision = p_.spec.precision;
  if (precision.compute != DType::kFp16)
    progress_.loss_scale.reset();
  else if (!progress_.loss_scale)
    progress_.loss_scale = initial_loss_scale(precision.loss_scale);
}

Trainer::Outcome Trainer::run() {
  if (progress_.evaluation_owed) evaluate();
  if (p_.spec.checkpoint.save_initial && progress_.step == 0) save(SaveKind::kPeriodic);
  while (progress_.step < p_.plan.total_steps) {
    p_.reporter.begin_step();
    const std::optional<LossScale> loss_scale = progress_.loss_scale;
    const StepResult result = advance();
    const std::int64_t k = progress_.step;
    p_.reporter.end_step(progress_,
                         {.sums = result.sums,
                          .grad_norm = result.grad_norm,
                          .lr = result.lr,
                          .loss_scale = loss_scale ? std::optional(loss_scale->value) : std::nullopt,
                          .data_waited_s = p_.batches.waited_seconds()});

    const bool finished = k == p_.plan.total_steps;
    const bool stopping = result.sums.stop_requested > 0 && !finished;
    if (evaluation_is_due(k)) {
      progress_.evaluation_owed = stopping;  // a stop is in a hurry: who resumes evaluates first
      if (!stopping) evaluate();
    }
    if (finished || stopping)
      save(SaveKind::kLast);
    else if (is_due(k, p_.plan.checkpoint_interval))
      save(SaveKind::kPeriodic);
    if (stopping) return Outcome::kStopped;
  }
  p_.faults.at("end", progress_.step);
  return Outcome::kFinished;
}

Trainer::StepResult Trainer::advance() {
  StepResult result = step(progress_.step + 1);
  account(result);
  return result;
}

// A periodic save that fails costs nothing but itself: the run goes on, and the next one tries again.
void Trainer::save(SaveKind kind) {
  const Status status = p_.checkpoints.save(progress_);
  if (status) return;
  // Who is fenced off never goes on: another leader has the job.
  if (kind == SaveKind::kLast || status.error().code == ErrorCode::kHeld)
    throw ErrorException(status.error());
  if (p_.comms.world().rank() == 0)
    p_.events.emit(
        Note{.severity = Severity::kWarning,
             .rank = 0,
             .text = fmt::format(
                 "step {} was not saved, training goes on: {}", progress_.step, to_string(status.error()))});
}

Trainer::StepResult Trainer::step(std::int64_t k) {
  p_.faults.at("step", k);
  StepResult result;
  result.lr = lr_at(p_.lr, k);
  p_.parameters.zero_grads();
  const StepSums local = accumulate_gradients(k, result.samples);

  p_.black_box.enter(Phase::kReduce);
  p_.faults.at("reduce", k);
  p_.reducer.finish();
  p_.tied.sum();
  result.sums = sum_over_ranks(p_.comms, local, p_.plant);

  p_.black_box.enter(Phase::kOptimizer);
  p_.faults.at("optimizer", k);
  update(result);

  p_.black_box.step.store(k);
  p_.black_box.enter(Phase::kIdle);
  write_costs(k);
  return result;
}

// Without a trace nobody knows how long it stood in collectives.
void Trainer::write_costs(std::int64_t k) {
  if (!p_.spec.monitoring.trace_collectives) return;
  const bool host_computes = p_.spec.run.device == Device::kCpu;
  p_.black_box.write_costs(k, host_computes, std::chrono::nanoseconds(sending_.total()).count());
}

// Forward and backward of every micro-batch. Gradients are sums over tokens divided by the nominal tokens
// of the global batch, a constant; update() corrects for labels that did not count.
StepSums Trainer::accumulate_gradients(std::int64_t k, std::vector<std::int64_t>& samples) {
  std::deque<MicroBatch> batches;  // of this step so far; a pipeline comes back to them for later chunks
  const LossSums loss = p_.pipeline.train(
      {.rows = p_.plan.micro_batch_size,
       .batch = [&](int m) -> const MicroBatch& {
         while (std::ssize(batches) <= m) batches.push_back(next_micro_batch(samples));
         return batches[static_cast<std::size_t>(m)];
       },
       .gradient_seed = [&](int m) { return gradient_seed(m); },
       .on_wait = [&](const Action& action) { wait(action); },
       .on_action = [&](const Action& action) { enter(k, action); },
       .on_gradient_ready = [&](SegmentIndex segment, bool last) { reduce_ready(segment, last); }});
  StepSums sums{.loss_sum = loss.loss, .valid_tokens = static_cast<double>(loss.tokens)};
  if (p_.faults.wants_nan("backward", k)) sums.loss_sum = std::nan("");
  sums.not_finite = std::isfinite(sums.loss_sum) ? 0 : 1;
  sums.stop_requested = p_.black_box.stop_request.load() != 0 ? 1 : 0;
  return sums;
}

MicroBatch Trainer::next_micro_batch(std::vector<std::int64_t>& samples) {
  p_.black_box.enter(Phase::kDataWait);
  p_.faults.at("data", progress_.step + 1);
  const TokenBatch tokens = value_or_throw(p_.batches.next());
  samples.insert(samples.end(), tokens.sample_ids.begin(), tokens.sample_ids.end());
  return to_micro_batch(tokens, p_.cut);
}

void Trainer::wait(const Action& action) {
  p_.black_box.micro_batch.store(action.micro_batch);
  p_.black_box.enter(Phase::kStageWait);
}

void Trainer::enter(std::int64_t k, const Action& action) {
  const bool forward = action.kind == ActionKind::kForward;
  p_.black_box.micro_batch.store(action.micro_batch);
  p_.black_box.enter(forward ? Phase::kForward : Phase::kBackward);
  if (action.kind != ActionKind::kWeightGradient) p_.faults.at(forward ? "forward" : "backward", k);
}

void Trainer::reduce_ready(SegmentIndex segment, bool last) {
  if (!last && !p_.reducer.reduces_every_pass()) return;
  p_.replicas.sum(segment);
  p_.reducer.on_gradient_ready(segment);
}

// The same for every micro-batch and rank, unless a bug is planted here.
double Trainer::gradient_seed(std::int64_t micro_batch) const {
  const double seed = loss_scale() / static_cast<double>(p_.plan.tokens_per_step);
  if (p_.plant == Plant::kLastMicroBatch && micro_batch + 1 == p_.plan.accumulation) return 0;
  const Communicator& data = p_.comms.axis(Axis::kData);
  if (p_.plant == Plant::kLossScale && data.rank() + 1 == data.size()) return seed * data.size();
  if (p_.plant == Plant::kSequenceLossScale) return seed * p_.comms.axis(Axis::kSequence).size();
  return seed;
}

// Norm -> finite check -> clip -> optimizer -> whole weights. Every rank sees the same numbers and so decides
// the same.
void Trainer::update(StepResult& result) {
  const double correction =
      token_correction(p_.plan.tokens_per_step, static_cast<std::int64_t>(result.sums.valid_tokens));
  const GradientScale scale =
      gradient_scale(p_.norm.sum_of_squares(), correction / loss_scale(), p_.spec.optimizer.clip_grad);
  result.grad_norm = scale.norm;
  result.overflowed = result.sums.not_finite == 0 && !scale.finite;
  result.skipped = result.sums.not_finite > 0 || !scale.finite;
  if (result.skipped) return;
  if (!misses_update()) p_.optimizer.step(result.lr, scale.scale);
  p_.weights.on_update();
}

bool Trainer::misses_update() const {
  const Communicator& world = p_.comms.world();
  return p_.plant == Plant::kStaleWeights && progress_.step == 1 && world.rank() + 1 == world.size();
}

void Trainer::account(const StepResult& result) {
  progress_.step += 1;
  progress_.samples += p_.plan.global_batch_size;
  progress_.tokens += p_.plan.tokens_per_step;
  const bool searches = follow_loss_scale(result.overflowed);
  if (!result.skipped) {
    progress_.skipped_in_a_row = 0;
    return;
  }
  progress_.skipped += 1;
  if (searches) return;
  progress_.skipped_in_a_row += 1;
  if (progress_.skipped_in_a_row > p_.spec.resilience.max_skipped_steps)
    throw Diverged(fmt::format(
        "step {}: loss or gradient was not finite for {} steps in a row, more than "
        "resilience.max_skipped_steps = {}{}",
        progress_.step,
        progress_.skipped_in_a_row,
        p_.spec.resilience.max_skipped_steps,
        result.overflowed && progress_.loss_scale
            ? fmt::format("; the loss scale is at precision.loss_scale.floor = {}: allow a lower one, "
                          "or use precision.compute = bf16, which has the range of fp32",
                          loss_scale())
            : ""));
}

// Whether the step was lost to a scale that can still halve: no reason to give up.
bool Trainer::follow_loss_scale(bool overflowed) {
  if (!progress_.loss_scale) return false;
  const LossScaleSpec& spec = p_.spec.precision.loss_scale;
  const bool searches = overflowed && !is_at_floor(spec, *progress_.loss_scale);
  progress_.loss_scale = next_loss_scale(spec, *progress_.loss_scale, overflowed);
  return searches;
}

bool Trainer::evaluation_is_due(std::int64_t k) const {
  return p_.evaluator != nullptr && (k == p_.plan.total_steps || is_due(k, p_.plan.eval_interval));
}

void Trainer::evaluate() {
  progress_.evaluation_owed = false;
  if (p_.evaluator == nullptr) return;  // resumed without validation data
  p_.black_box.enter(Phase::kEvaluate);
  const EvalReport report = p_.evaluator->run(progress_.step);
  if (p_.comms.world().rank() == 0) p_.events.emit(report);
  p_.black_box.enter(Phase::kIdle);
}

}  // namespace llmtrain
