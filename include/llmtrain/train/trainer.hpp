#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "llmtrain/core/plant.hpp"
#include "llmtrain/core/tcp_send_time.hpp"
#include "llmtrain/job/lr_schedule.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/monitor/black_box.hpp"
#include "llmtrain/placement/parameter_table.hpp"
#include "llmtrain/placement/sequence_cut.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/train/progress.hpp"
#include "llmtrain/train/step_sums.hpp"

namespace llmtrain {

class BatchLoader;
class Checkpointer;
class ControlChannel;
class Evaluator;
class FaultInjector;
class FlatParameters;
class GradientNorm;
class GradientReducer;
class MeshComms;
class Optimizer;
class ParameterGather;
class Pipeline;
class ReplicaGradients;
class StepReporter;
class TiedGradients;
struct Action;
struct MicroBatch;

// The training loop of one rank, and the step inside it: both read top to bottom.
//
// A Trainer owns nothing it uses: build.cpp makes the parts and outlives it. All ranks of a job run the
// same loop and take the same turns, since every decision comes from numbers that were summed over them.
struct TrainerParts {
  const JobSpec& spec;
  const RunPlan& plan;
  const LrSchedule& lr;
  SequenceCut cut;  // of every sample, for this rank
  MeshComms& comms;
  FlatParameters& parameters;
  Pipeline& pipeline;
  ReplicaGradients& replicas;
  GradientReducer& reducer;
  TiedGradients& tied;
  GradientNorm& norm;
  Optimizer& optimizer;
  ParameterGather& weights;
  BatchLoader& batches;
  Evaluator* evaluator;  // null: no validation data
  Checkpointer& checkpoints;
  StepReporter& reporter;
  ControlChannel& events;
  FaultInjector& faults;
  BlackBox& black_box;
  Plant plant = Plant::kNone;
};

// The run cannot go on: too many steps in a row had a loss or gradient that is not finite.
class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Trainer {
 public:
  enum class Outcome { kFinished, kStopped };

  struct StepResult {
    StepSums sums;
    double grad_norm = 0;
    double lr = 0;
    bool skipped = false;
    bool overflowed = false;              // skipped, and the gradient is to blame, not the loss
    std::vector<std::int64_t> samples{};  // ids of those that this rank computed, in order
  };

  Trainer(TrainerParts parts, Progress progress);

  // Runs until the planned number of steps, or until the agent asks for a stop; in both cases the last
  // step is committed on return. Throws CommError, Diverged, and what libtorch and storage throw.
  Outcome run();
  // The next step alone: nothing is reported, evaluated or saved. Gradients, as they were before the
  // optimizer scaled them, stay where they are until the step after it.
  StepResult advance();
  const Progress& progress() const { return progress_; }

 private:
  enum class SaveKind { kPeriodic, kLast };

  StepResult step(std::int64_t k);
  StepSums accumulate_gradients(std::int64_t k, std::vector<std::int64_t>& samples);
  MicroBatch next_micro_batch(std::vector<std::int64_t>& samples);
  void wait(const Action& action);
  void enter(std::int64_t k, const Action& action);
  void reduce_ready(SegmentIndex segment, bool last);
  double gradient_seed(std::int64_t micro_batch) const;
  double loss_scale() const { return progress_.loss_scale ? progress_.loss_scale->value : 1; }
  void write_costs(std::int64_t k);
  void update(StepResult& result);
  bool misses_update() const;
  void account(const StepResult& result);
  bool follow_loss_scale(bool overflowed);
  bool evaluation_is_due(std::int64_t k) const;
  void evaluate();
  void save(SaveKind kind);

  TrainerParts p_;
  Progress progress_;
  TcpSendTime sending_;
};

}  // namespace llmtrain
