#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "llmtrain/spec/enum_names.hpp"
#include "llmtrain/spec/scalars.hpp"

#include "rules.hpp"

// Which number formats go together, and what of its memory a job may trade for time.
namespace llmtrain {
namespace {

// Gradients are kept in fp32, or fp64 under fp64, and may travel in bf16, which has the range of fp32.
std::string objection_to_reduce(const PrecisionSpec& precision) {
  const DType reduce = *precision.reduce;
  const bool proof = precision.compute == DType::kFp64;
  if (reduce == (proof ? DType::kFp64 : DType::kFp32) || (!proof && reduce == DType::kBf16)) return {};
  if (reduce == DType::kFp16) return "sums of gradients overflow its range";
  return fmt::format("under precision.compute = {} gradients are kept in {}",
                     to_string(precision.compute),
                     proof ? "fp64" : "fp32");
}

void check_reduce(Rules& rules) {
  const PrecisionSpec& precision = rules.spec.precision;
  const ParallelismSpec& p = rules.spec.parallelism;
  if (!precision.reduce || !rules.usable({"precision.compute", "precision.reduce"})) return;
  if (const std::string objection = objection_to_reduce(precision); !objection.empty())
    rules.error("precision.reduce",
                fmt::format("= {}: {}; allowed: {}",
                            to_string(*precision.reduce),
                            objection,
                            precision.compute == DType::kFp64 ? "fp64" : "fp32, bf16"));
  else if (*precision.reduce == DType::kBf16 && p.dp.value_or(1) * p.sp == 1 &&
           rules.usable({"parallelism.dp", "parallelism.sp"}))
    rules.warning("precision.reduce",
                  "has no effect: parallelism.dp x parallelism.sp is 1, no gradients travel");
}

// Powers of two, so that scaling changes exponents only.
void check_power_of_two(Rules& rules, const char* path, double value) {
  int exponent = 0;
  if (!rules.usable({path}) || std::frexp(value, &exponent) == 0.5) return;
  rules.error(path,
              fmt::format("= {}: a scale that rounds gradients; allowed: a power of two, such as {} or {}",
                          value,
                          std::ldexp(1.0, exponent - 1),
                          std::ldexp(1.0, exponent)));
}

void check_loss_scale(Rules& rules) {
  const LossScaleSpec& scale = rules.spec.precision.loss_scale;
  if (rules.spec.precision.compute != DType::kFp16) {
    if (rules.given("precision.loss_scale") && rules.usable({"precision.compute"}))
      rules.warning("precision.loss_scale",
                    fmt::format("has no effect: precision.compute is {}; only fp16 needs a scale",
                                to_string(rules.spec.precision.compute)));
    return;
  }
  check_power_of_two(rules, "precision.loss_scale.initial", scale.initial);
  check_power_of_two(rules, "precision.loss_scale.floor", scale.floor);
  if (scale.floor > scale.initial && rules.usable({"precision.loss_scale"}))
    rules.error(
        "precision.loss_scale.floor",
        fmt::format("= {}: allowed: at most precision.loss_scale.initial = {}", scale.floor, scale.initial));
}

}  // namespace

void check_precision(Rules& rules) {
  check_reduce(rules);
  check_loss_scale(rules);
}

void check_memory(Rules& rules) {
  const MemorySpec& memory = rules.spec.memory;
  const std::int64_t layers = rules.spec.model.num_layers;
  if (memory.recompute_layers && memory.recompute == Recompute::kNone && rules.usable({"memory.recompute"}))
    rules.warning("memory.recompute_layers", "has no effect: memory.recompute is none");
  else if (memory.recompute_layers && layers > 0 && *memory.recompute_layers > layers &&
           rules.usable({"memory.recompute_layers", "model.num_layers", "model.preset"}))
    rules.error(
        "memory.recompute_layers",
        fmt::format(
            "= {}: more than model.num_layers; allowed: 0 to {}, or auto", *memory.recompute_layers, layers));
  if (memory.offload_optimizer == OptimizerOffload::kCpu && rules.spec.run.device == Device::kCpu &&
      rules.usable({"memory.offload_optimizer", "run.device"}))
    rules.warning("memory.offload_optimizer",
                  "has no effect: run.device is cpu, and host memory is where the state is");
}

}  // namespace llmtrain
