#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "llmtrain/train/control_channel.hpp"
#include "llmtrain/train/progress.hpp"
#include "llmtrain/train/step_sums.hpp"

// Turns a finished step into the StepReport that the world sees: speed, MFU, memory, data wait.
//
// Only the first rank of a job reports; the numbers are global. Measures, never decides.
namespace llmtrain {

struct StepNumbers {
  StepSums sums;
  double grad_norm = 0;
  double lr = 0;
  std::optional<double> loss_scale{};  // of this step; fp16 only
  double data_waited_s = 0;            // total so far, of this rank
};

class StepReporter {
 public:
  struct Options {
    bool reports = true;  // false: a rank that stays silent
    std::int64_t tokens_per_step = 0;
    int world_size = 1;
    double flops_per_token = 0;        // model FLOPs, forward and backward
    std::optional<double> peak_flops;  // FLOP/s of one rank; until it is known, mfu is null
    std::function<double()>
        measure_peak;  // asked once, after the first step, when the peak is unknown; may be empty
  };

  StepReporter(Options options, ControlChannel& events) : options_(std::move(options)), events_(events) {}

  void begin_step();
  void end_step(const Progress& progress, const StepNumbers& numbers);

 private:
  Options options_;
  ControlChannel& events_;
  std::chrono::steady_clock::time_point began_;
  double data_waited_s_ = 0;
};

}  // namespace llmtrain
