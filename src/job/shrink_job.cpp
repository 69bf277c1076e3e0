#include "llmtrain/job/shrink_job.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/core/division.hpp"
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/job/run_plan.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kHeadDim = 8;
constexpr std::int64_t kVocabulary = 48;
constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kOfAKind = 2;  // the smallest number that stands for "several"

// Ranks among which something is dealt out, before and after.
struct Ways {
  std::int64_t before = 1;
  std::int64_t after = 1;
};

std::int64_t few(std::int64_t n) {
  return std::min(n, kOfAKind);
}

std::int64_t largest_divisor(std::int64_t n, std::int64_t at_most) {
  std::int64_t divisor = std::min(n, at_most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

// Ranks of an sp group may deal out the heads of a tp rank; where these allow it, they still do.
Ways ways_of_heads(const ModelSpec& m, const MeshShape& before, const MeshShape& after) {
  const std::int64_t all = std::int64_t{before.tp} * before.sp;
  const std::int64_t kv_heads = m.num_kv_heads.value();
  if (m.num_heads % all == 0 && (kv_heads % all == 0 || all % kv_heads == 0))
    return {all, std::int64_t{after.tp} * after.sp};
  return {before.tp, after.tp};
}

void shrink_heads(ModelSpec& m, const Ways& ways) {
  const std::int64_t kv_heads = m.num_kv_heads.value();
  if (kv_heads >= ways.before) {
    const std::int64_t of_a_rank = few(exact_div(kv_heads, ways.before));
    m.num_heads = ways.after * of_a_rank * few(exact_div(m.num_heads, kv_heads));
    m.num_kv_heads = ways.after * of_a_rank;
  } else {
    m.num_heads = ways.after * few(exact_div(m.num_heads, ways.before));
    m.num_kv_heads = exact_div(ways.after, largest_divisor(ways.after, exact_div(ways.before, kv_heads)));
  }
}

// Heads may be as wide as the model together, wider, or narrower.
void shrink_width(ModelSpec& m, std::int64_t width_of_heads_before) {
  m.head_dim = std::min(m.head_dim.value(), kHeadDim);
  const std::int64_t width = m.num_heads * *m.head_dim;
  if (m.hidden_size == width_of_heads_before)
    m.hidden_size = width;
  else
    m.hidden_size =
        std::min(m.hidden_size, m.hidden_size > width_of_heads_before ? 2 * width : ceil_div(width, 2));
}

std::int64_t shrunk_vocabulary(std::int64_t size, const Ways& tp) {
  if (size <= kVocabulary && tp.before == tp.after) return size;
  const std::int64_t divided = round_up(std::min(size, kVocabulary), tp.after);
  return size % tp.before == 0 ? divided : divided + 1;
}

std::int64_t shrunk_sequence(std::int64_t length, const MeshShape& before, const MeshShape& after) {
  const std::int64_t goal = std::min(length, length % 2 == 0 ? kTokens : kTokens - 1);
  const std::int64_t sp_before = std::int64_t{before.sp} * before.tp;
  const std::int64_t sp_after = std::int64_t{after.sp} * after.tp;
  for (const Ways& ways :
       {Ways{2 * sp_before, 2 * sp_after}, Ways{sp_before, sp_after}, Ways{before.tp, after.tp}})
    if (length % ways.before == 0) return round_up(goal, ways.after);
  return goal;
}

void shrink_model(ModelSpec& m, std::int64_t seq_length, const MeshShape& before, const MeshShape& after) {
  const std::int64_t width_of_heads = m.num_heads * m.head_dim.value();
  const Ways tp{before.tp, after.tp};
  shrink_heads(m, ways_of_heads(m, before, after));
  shrink_width(m, width_of_heads);
  m.ffn_hidden_size = tp.after * std::min(exact_div(m.ffn_hidden_size.value(), tp.before),
                                          ceil_div(2 * m.hidden_size, tp.after));
  m.vocab_size = shrunk_vocabulary(m.vocab_size, tp);
  const bool has_more_positions = m.max_position.value() > seq_length;
  const std::int64_t shrunk = shrunk_sequence(seq_length, before, after);
  m.max_position = has_more_positions ? std::min(*m.max_position, shrunk + 3) : shrunk;
}

using Layers = std::vector<std::int64_t>;

bool is_even(const Layers& layers) {
  return std::adjacent_find(layers.begin(), layers.end(), std::not_equal_to<>()) == layers.end();
}

// Of `count` virtual stages spread over those that there were, from the first to the last.
Layers sample(const Layers& layers, std::size_t count) {
  Layers kept;
  for (std::size_t s = 0; s < count; ++s) kept.push_back(layers[s * (layers.size() - 1) / (count - 1)]);
  return kept;
}

// Even stays even, more than others stays more, and none stays none.
Layers shrunk_layers(const Layers& layers, std::size_t count) {
  if (is_even(layers)) return Layers(count, few(layers.front()));
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t n : layers)
    if (n > 0) least = std::min(least, n);
  Layers small = sample(layers, count);
  for (std::int64_t& n : small) n = n == 0 ? 0 : n == least ? 1 : kOfAKind;
  if (is_even(small)) small[count / 2] = small[count / 2] == 1 ? kOfAKind : 1;
  return small;
}

void shrink_stages(JobSpec& spec, const MeshShape& after) {
  ParallelismSpec& p = spec.parallelism;
  const auto virtual_stages = static_cast<std::size_t>(after.pp * p.virtual_stages.value());
  p.stage_layers = after.pp == 1 ? Layers{few(spec.model.num_layers)}
                                 : shrunk_layers(p.stage_layers.value(), virtual_stages);
  spec.model.num_layers = std::accumulate(p.stage_layers->begin(), p.stage_layers->end(), std::int64_t{0});
}

// Of each virtual stage all layers are computed again, or the first; they still are.
void shrink_recompute(MemorySpec& memory, const Layers& before, const Layers& after) {
  if (!memory.recompute_layers) return;
  const std::int64_t most = *std::max_element(after.begin(), after.end());
  const bool all = *memory.recompute_layers >= *std::max_element(before.begin(), before.end());
  memory.recompute_layers = all ? most : std::min(*memory.recompute_layers, most - 1);
}

// A multiple of the stages stays one, what is no multiple stays none, and fewer stay fewer.
std::int64_t shrunk_micro_batches(std::int64_t count, int stages_before, int stages) {
  if (count % stages_before == 0) return stages * few(exact_div(count, stages_before));
  if (count < stages_before) return std::clamp<std::int64_t>(stages - 1, 1, count);
  const std::int64_t few_more = std::min<std::int64_t>(count, kOfAKind * stages + 1);
  return few_more % stages == 0 ? few_more - 1 : few_more;
}

void shrink_batch(JobSpec& spec, const MeshShape& before, const MeshShape& after) {
  BatchSpec& b = spec.batch;
  b.micro_batch_size = few(b.micro_batch_size);
  // The text of a schedule says how many micro-batches there are.
  if (before.pp == 1 || !is_schedule_text(spec.parallelism.schedule))
    b.gradient_accumulation_steps =
        shrunk_micro_batches(b.gradient_accumulation_steps.value(), before.pp, after.pp);
  b.global_batch_size = b.micro_batch_size * *b.gradient_accumulation_steps * after.dp;
}

Status can_shrink_schedule(const ParallelismSpec& p, const MeshShape& after) {
  if (p.pp == after.pp || !is_schedule_text(p.schedule)) return ok_status();
  return Error{
      ErrorCode::kPreflight,
      fmt::format(
          "a schedule file for {} stages cannot be shrunk to {}, which is what this host has room for",
          p.pp,
          after.pp),
      "prove the job with a schedule that has a name (gpipe, 1f1b, ...), or on a larger host"};
}

bool is_hybrid(const ParallelismSpec& p, const MeshShape& mesh) {
  return p.zero_stage > 0 && p.dp_shard && *p.dp_shard > 1 && *p.dp_shard < mesh.dp * mesh.sp;
}

// Several copies stay several, and each stays spread over several ranks.
void shrink_shards(ParallelismSpec& p, const MeshShape& before, const MeshShape& after) {
  const int group = after.dp * after.sp;
  if (is_hybrid(p, before))
    p.dp_shard = static_cast<int>(largest_divisor(group, std::min(*p.dp_shard, group / 2)));
  else if (p.dp_shard && *p.dp_shard > 1)
    p.dp_shard = group;
}

void set_layout(JobSpec& spec, const MeshShape& mesh) {
  spec.parallelism.pp = mesh.pp;
  spec.parallelism.dp = mesh.dp;
  spec.parallelism.sp = mesh.sp;
  spec.parallelism.tp = mesh.tp;
  spec.launch = LaunchSpec{};
  spec.launch.procs_per_node = mesh.world_size();
}

// What does not change the numbers of a step.
void leave_out_the_rest(JobSpec& spec) {
  const JobSpec defaults;
  spec.run.device = Device::kCpu;
  spec.data.train = {DataSourceSpec{.path = "synthetic", .max_epochs = {}}};
  spec.data.valid.clear();
  spec.data.valid_fraction = 0;
  spec.data.tokenizer.clear();
  spec.precision = {.compute = DType::kFp64, .reduce = DType::kFp64};
  spec.checkpoint = defaults.checkpoint;
  spec.monitoring = {.tensorboard = false, .peak_tflops = 1.0};
  spec.resilience.collective_timeout_s = defaults.resilience.collective_timeout_s;
  spec.faults.clear();
}

void shrink_time(JobSpec& spec, const RunPlan& plan) {
  spec.train = {.duration = steps(kProofSteps), .compute_threads = 1};
  spec.lr_schedule.warmup = steps(std::min<std::int64_t>(1, plan.warmup_steps));
  spec.lr_schedule.decay = steps(1);
}

}  // namespace

Result<MeshShape> shrink_mesh(MeshShape mesh, int max_ranks, int smallest_dp) {
  struct Goal {
    int MeshShape::*degree;
    int smallest;
  };
  const MeshShape asked = mesh;
  for (const Goal& goal : {Goal{&MeshShape::dp, smallest_dp},
                           Goal{&MeshShape::pp, 4},
                           Goal{&MeshShape::sp, 2},
                           Goal{&MeshShape::tp, 4}}) {
    if (mesh.world_size() <= max_ranks) break;
    mesh.*goal.degree = std::min(mesh.*goal.degree, goal.smallest);
  }
  if (mesh.world_size() <= max_ranks) return mesh;
  return Error{
      ErrorCode::kPreflight,
      fmt::format("pp {} x dp {} x sp {} x tp {} shrinks to {} ranks at least, and this host has memory "
                  "for {}",
                  asked.pp,
                  asked.dp,
                  asked.sp,
                  asked.tp,
                  mesh.world_size(),
                  max_ranks),
      "prove it on a larger host"};
}

Result<JobSpec> shrink_job(const JobSpec& spec, int max_ranks) {
  const RunPlan plan = plan_run(spec);
  const int smallest_dp = is_hybrid(spec.parallelism, plan.mesh) && plan.mesh.sp == 1 ? 4 : 2;
  LLMTRAIN_ASSIGN(mesh, shrink_mesh(plan.mesh, max_ranks, smallest_dp));
  JobSpec small = spec;
  shrink_model(small.model, spec.data.seq_length, plan.mesh, mesh);
  small.data.seq_length = shrunk_sequence(spec.data.seq_length, plan.mesh, mesh);
  LLMTRAIN_TRY(can_shrink_schedule(spec.parallelism, mesh));
  shrink_stages(small, mesh);
  shrink_recompute(
      small.memory, spec.parallelism.stage_layers.value(), small.parallelism.stage_layers.value());
  shrink_batch(small, plan.mesh, mesh);
  shrink_shards(small.parallelism, plan.mesh, mesh);
  set_layout(small, mesh);
  leave_out_the_rest(small);
  shrink_time(small, plan);
  return small;
}

JobSpec one_rank_job(JobSpec spec) {
  spec.parallelism = ParallelismSpec();
  spec.parallelism.dp = 1;
  spec.parallelism.tp_overlap_chunks = 1;
  spec.parallelism.virtual_stages = 1;
  spec.parallelism.stage_layers = Layers{spec.model.num_layers};
  spec.memory = MemorySpec();
  spec.launch.procs_per_node = 1;
  spec.batch.gradient_accumulation_steps =
      exact_div(spec.batch.global_batch_size.value(), spec.batch.micro_batch_size);
  return spec;
}

}  // namespace llmtrain
