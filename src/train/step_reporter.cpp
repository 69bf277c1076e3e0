#include "llmtrain/train/step_reporter.hpp"

#include <cmath>

#include "llmtrain/sizing/flops.hpp"
#include "llmtrain/train/process_memory.hpp"

namespace llmtrain {
namespace {

std::optional<double> if_finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace

void StepReporter::begin_step() {
  began_ = std::chrono::steady_clock::now();
}

void StepReporter::end_step(const Progress& progress, const StepNumbers& numbers) {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  const double waited_s = numbers.data_waited_s - data_waited_s_;
  data_waited_s_ = numbers.data_waited_s;
  if (!options_.reports) return;
  const double tok_s = static_cast<double>(options_.tokens_per_step) / seconds;
  StepReport report{.step = progress.step,
                    .loss = if_finite(numbers.sums.mean_loss()),
                    .grad_norm = if_finite(numbers.grad_norm),
                    .lr = numbers.lr,
                    .tokens = progress.tokens,
                    .tok_s = if_finite(tok_s),
                    .step_ms = seconds * 1e3,
                    .mem_gb = static_cast<double>(peak_resident_bytes()) / 1e9,
                    .skipped = progress.skipped,
                    .data_wait_ms = waited_s * 1e3,
                    .loss_scale = numbers.loss_scale};
  if (options_.peak_flops)
    report.mfu = mfu(tok_s, options_.flops_per_token, options_.world_size * *options_.peak_flops);
  events_.emit(report);
  if (!options_.peak_flops && options_.measure_peak) options_.peak_flops = options_.measure_peak();
}

}  // namespace llmtrain
