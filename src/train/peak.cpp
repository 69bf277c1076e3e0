#include "llmtrain/train/peak.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include <unistd.h>

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/run_dir.hpp"
#include "llmtrain/sizing/peak_cache.hpp"
#include "llmtrain/tensor/memory_pool.hpp"
#include "llmtrain/tensor/tensor.hpp"
#include "llmtrain/train/compute_setup.hpp"

namespace llmtrain {
namespace {

PeakKey peak_key(const RankContext& context) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return {.host = host,
          .cpu = cpu_capability(),
          .dtype = context.spec.precision.compute,
          .threads = compute_threads(context)};
}

std::string peak_file(const RankContext& context) {
  return RunDir(context.request.run_dir).measured_peak().string();
}

double matmul_flops(DType dtype) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kTries = 5;
  const PoolScope scope(MemoryPool::kMeasurement);
  const at::Tensor a = at::ones({kSize, kSize}, scalar_type(dtype));  // [n, n]
  double best_s = 1e30;
  for (int i = 0; i < kTries; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const at::Tensor product = at::mm(a, a);  // [n, n]
    best_s =
        std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return 2.0 * kSize * kSize * kSize / best_s;
}

}  // namespace

std::optional<double> known_peak(const RankContext& context) {
  if (context.spec.monitoring.peak_tflops) return *context.spec.monitoring.peak_tflops * 1e12;
  const auto files = make_posix_filesystem();
  return load_peak(*files, peak_file(context), peak_key(context));
}

double measure_and_store_peak(RankContext& context) {
  const PeakKey key = peak_key(context);
  const double peak = measure_peak_flops(key.dtype);
  const auto files = make_posix_filesystem();
  if (const auto status = store_peak(*files, peak_file(context), key, peak); !status)
    context.events.emit(Note{.severity = Severity::kWarning,
                             .rank = context.request.rank,
                             .text = "the measured peak is not remembered: " + to_string(status.error())});
  return peak;
}

double measure_peak_flops(DType dtype) {
  // Without instructions for it a product in a narrow type is slower than in fp32, to which kernels may
  // convert: the peak of such a host is that of fp32.
  const double peak = matmul_flops(dtype);
  return bytes_of(dtype) == 2 ? std::max(peak, matmul_flops(DType::kFp32)) : peak;
}

}  // namespace llmtrain
