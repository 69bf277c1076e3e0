#include "resolve.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/division.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/spec/tree.hpp"

namespace llmtrain {
namespace {

class Resolver {
 public:
  Resolver(JobSpec& spec, const YamlNode& tree, Diagnostics& diagnostics)
      : spec_(spec), tree_(tree), diagnostics_(diagnostics) {}

  void model() {
    ModelSpec& m = spec_.model;
    if (!m.num_kv_heads) m.num_kv_heads = m.num_heads;
    if (!m.head_dim) {
      if (m.num_heads > 0 && m.hidden_size % m.num_heads != 0)
        error("model.num_heads",
              fmt::format("= {}: does not divide model.hidden_size = {}, and no head_dim is given; "
                          "allowed: a divisor of {}, or give model.head_dim",
                          m.num_heads,
                          m.hidden_size,
                          m.hidden_size));
      m.head_dim = std::max<std::int64_t>(1, m.num_heads > 0 ? m.hidden_size / m.num_heads : 1);
    }
    const bool gated = m.mlp == MlpKind::kSwiglu || m.mlp == MlpKind::kGeglu;
    if (!m.ffn_hidden_size)
      m.ffn_hidden_size = gated ? round_up(ceil_div(8 * m.hidden_size, 3), 64) : 4 * m.hidden_size;
    if (!m.max_position) m.max_position = spec_.data.seq_length;
  }

  // World = nodes of the mesh x procs_per_node = pp x dp x sp x tp.
  void layout(std::optional<int> procs_from_command) {
    ParallelismSpec& p = spec_.parallelism;
    std::optional<int>& procs = spec_.launch.procs_per_node;
    if (procs_from_command) procs = procs_from_command;
    const std::int64_t inner = std::int64_t{p.pp} * p.sp * p.tp;
    const std::int64_t nodes = mesh_nodes(spec_);
    if (procs) {
      const std::int64_t world = nodes * *procs;
      const std::string world_text =
          fmt::format("nodes {} x procs_per_node {} = {} ranks", nodes, *procs, world);
      if (!p.dp) {
        if (world % inner != 0)
          error("parallelism.dp",
                fmt::format("= auto: {} is not a multiple of pp {} x sp {} x tp {} = {}",
                            world_text,
                            p.pp,
                            p.sp,
                            p.tp,
                            inner));
        p.dp = static_cast<int>(std::clamp<std::int64_t>(world / inner, 1, 1'000'000));
      } else if (inner * *p.dp != world) {
        error("parallelism.dp",
              fmt::format("= {}: pp {} x dp {} x sp {} x tp {} = {}, but {}; allowed: {}, auto, or another "
                          "procs_per_node",
                          *p.dp,
                          p.pp,
                          *p.dp,
                          p.sp,
                          p.tp,
                          inner * *p.dp,
                          world_text,
                          world % inner == 0 ? std::to_string(world / inner) : "no value"));
      }
      return;
    }
    if (!p.dp) p.dp = 1;
    const std::int64_t world = inner * *p.dp;
    if (world % nodes != 0)
      error("launch.nodes",
            fmt::format("= {}: does not divide pp {} x dp {} x sp {} x tp {} = {} ranks",
                        nodes,
                        p.pp,
                        *p.dp,
                        p.sp,
                        p.tp,
                        world));
    procs = static_cast<int>(std::clamp<std::int64_t>(world / nodes, 1, 1'000'000));
  }

  // global = micro x accumulation x dp.
  void batch() {
    BatchSpec& b = spec_.batch;
    const std::int64_t dp = *spec_.parallelism.dp;
    const std::int64_t unit = b.micro_batch_size * dp;
    const std::string unit_text =
        fmt::format("batch.micro_batch_size {} x parallelism.dp {}", b.micro_batch_size, dp);
    if (b.gradient_accumulation_steps && b.global_batch_size) {
      const std::int64_t product = unit * *b.gradient_accumulation_steps;
      if (product != *b.global_batch_size)
        error("batch.global_batch_size",
              fmt::format("= {}: {} x batch.gradient_accumulation_steps {} = {}; allowed: {} here, or leave "
                          "one of the two out",
                          *b.global_batch_size,
                          unit_text,
                          *b.gradient_accumulation_steps,
                          product,
                          product));
    } else if (b.global_batch_size) {
      const std::int64_t global = *b.global_batch_size;
      if (global % unit != 0) {
        const std::int64_t below = global / unit * unit;
        error("batch.global_batch_size",
              fmt::format("= {}: not a multiple of {} = {}; allowed: {}{}, or another batch.micro_batch_size",
                          global,
                          unit_text,
                          unit,
                          below > 0 ? fmt::format("{} or ", below) : "",
                          below + unit));
      }
      b.gradient_accumulation_steps = std::max<std::int64_t>(1, global / unit);
    } else {
      if (!b.gradient_accumulation_steps) b.gradient_accumulation_steps = 1;
      b.global_batch_size = unit * *b.gradient_accumulation_steps;
      if (*b.global_batch_size > kLargestBatch)
        error(
            "batch.micro_batch_size",
            fmt::format(
                "= {}: {} x batch.gradient_accumulation_steps {} = {}; allowed: a global batch of at most {}",
                b.micro_batch_size,
                unit_text,
                *b.gradient_accumulation_steps,
                *b.global_batch_size,
                kLargestBatch));
    }
  }

  void types(bool cuda_available) {
    if (!spec_.precision.reduce)
      spec_.precision.reduce = spec_.precision.compute == DType::kFp64 ? DType::kFp64 : DType::kFp32;
    if (spec_.run.device == Device::kAuto) spec_.run.device = cuda_available ? Device::kCuda : Device::kCpu;
  }

  // Ranks on the cores of one host hide nothing: what communicates for them takes the time of a computation.
  void overlap() {
    constexpr int kChunksOnGpus = 4;
    ParallelismSpec& p = spec_.parallelism;
    if (!p.tp_overlap_chunks)
      p.tp_overlap_chunks = p.tp > 1 && spec_.run.device == Device::kCuda ? kChunksOnGpus : 1;
  }

 private:
  static constexpr std::int64_t kLargestBatch = 1'000'000'000;

  void error(const std::string& path, std::string message) {
    diagnostics_.error(origin_of(tree_, path), path, std::move(message));
  }

  JobSpec& spec_;
  const YamlNode& tree_;
  Diagnostics& diagnostics_;
};

}  // namespace

void resolve(JobSpec& spec,
             const YamlNode& tree,
             std::optional<int> procs_per_node,
             bool cuda_available,
             Diagnostics& diagnostics) {
  Resolver resolver(spec, tree, diagnostics);
  resolver.model();
  resolver.layout(procs_per_node);
  resolver.batch();
  resolver.types(cuda_available);
  resolver.overlap();
  resolve_pipeline(spec, tree, diagnostics);
}

}  // namespace llmtrain
