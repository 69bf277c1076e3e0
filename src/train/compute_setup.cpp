#include "llmtrain/train/compute_setup.hpp"

#include <algorithm>

#include <sched.h>

#include <ATen/Parallel.h>
#include <ATen/Version.h>

namespace llmtrain {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

int compute_threads(const RankContext& context) {
  if (context.spec.train.compute_threads > 0) return context.spec.train.compute_threads;
  return std::max(1, usable_cores() / context.plan.procs_per_node);
}

void set_compute_threads(int threads) {
  at::set_num_threads(threads);
}

std::string cpu_capability() {
  return at::get_cpu_capability();
}

}  // namespace llmtrain
