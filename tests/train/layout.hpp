#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

// How a test cuts a job over ranks and time: what differs between runs that must compute the same.
namespace llmtrain::test {

struct Layout {
  int dp = 1;
  int accumulation = 1;
  int tp = 1;
  bool shard_sequence = false;
  int zero = 0;
  int dp_shard = 0;  // 0 = all
  int sp = 1;
  std::string method = "ring";
  int pp = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 0;          // 0 = what the schedule wants
  std::string stage_layers;        // layers of each stage, "[2, 1]"; empty = auto
  std::string recompute = "none";  // memory.recompute
  int recompute_layers = 0;        // memory.recompute_layers; 0 = auto
  int overlap_chunks = 1;          // parallelism.tp_overlap_chunks

  int ranks() const { return pp * dp * sp * tp; }
};

// As --set of a job with `global_batch` sequences a step. What a layout does not use is not mentioned.
inline std::vector<std::string> overrides_of(const Layout& layout, std::int64_t global_batch = 16) {
  std::string parallelism = fmt::format("dp: {}, tp: {}, sp: {}", layout.dp, layout.tp, layout.sp);
  if (layout.tp > 1) parallelism += fmt::format(", tp_shard_sequence: {}", layout.shard_sequence);
  if (layout.overlap_chunks > 1) parallelism += fmt::format(", tp_overlap_chunks: {}", layout.overlap_chunks);
  if (layout.sp > 1) parallelism += ", sp_method: " + layout.method;
  if (layout.zero > 0) parallelism += fmt::format(", zero_stage: {}", layout.zero);
  if (layout.dp_shard > 0) parallelism += fmt::format(", dp_shard: {}", layout.dp_shard);
  if (layout.pp > 1) parallelism += fmt::format(", pp: {}, schedule: {}", layout.pp, layout.schedule);
  if (layout.virtual_stages > 0) parallelism += fmt::format(", virtual_stages: {}", layout.virtual_stages);
  if (!layout.stage_layers.empty()) parallelism += ", stage_layers: " + layout.stage_layers;
  std::vector<std::string> list = {"parallelism={" + parallelism + "}",
                                   fmt::format("batch={{global_batch_size: {}, micro_batch_size: {}}}",
                                               global_batch,
                                               global_batch / (layout.dp * layout.accumulation))};
  if (layout.recompute != "none") list.push_back("memory.recompute=" + layout.recompute);
  if (layout.recompute_layers > 0)
    list.push_back(fmt::format("memory.recompute_layers={}", layout.recompute_layers));
  return list;
}

}  // namespace llmtrain::test
