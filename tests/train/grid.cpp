#include "tests/train/grid.hpp"

#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/job/load_job.hpp"

namespace llmtrain::test {

// Eight heads and two key/value heads, so that four tp ranks share them; 61 words, which no degree divides.
const char* const kGridJob = R"(
version: 1
run: {name: grid, seed: 7, device: cpu}
model: {family: llama, vocab_size: 61, hidden_size: 32, num_layers: 2, num_heads: 8, num_kv_heads: 2, ffn_hidden_size: 48}
data: {seq_length: 16, train: [{path: synthetic}], prefetch: 1}
batch: {micro_batch_size: 1}
precision: {compute: fp64}
optimizer: {name: adamw, lr: 3.0e-3}
lr_schedule: {style: cosine, warmup: 2 steps}
train: {duration: 10 steps, compute_threads: 1}
monitoring: {peak_tflops: 0.1, tensorboard: false}
resilience: {collective_timeout_s: 60}
)";

namespace {

enum GridAxis {
  kModel,
  kDocumentMask,
  kOptimizer,
  kTp,
  kShardSequence,
  kOverlapChunks,
  kSp,
  kMethod,
  kDp,
  kZero,
  kAccumulation,
  kPp,
  kSchedule,
  kStageLayers,
  kRecompute,
  kNumAxes,
};

struct AxisValues {
  const char* name;
  std::vector<const char*> words;
};

// In the order of GridAxis.
const std::vector<AxisValues>& axes() {
  static const std::vector<AxisValues> list = {
      {"model", {"llama", "gpt2", "qwen2"}},
      {"document_mask", {"false", "true"}},
      {"optimizer", {"adamw", "sgd"}},
      {"tp", {"1", "2", "4"}},
      {"tp_shard_sequence", {"false", "true"}},
      {"tp_overlap_chunks", {"1", "3"}},
      {"sp", {"1", "2", "4"}},
      {"sp_method", {"ring", "ulysses", "allgather"}},
      {"dp", {"1", "2", "4"}},
      {"zero", {"0", "1", "2", "3", "1 hybrid", "2 hybrid", "3 hybrid"}},
      {"accumulation", {"1", "2", "3", "4"}},
      {"pp", {"1", "2", "4"}},
      {"schedule", {"gpipe", "1f1b", "interleaved", "zb-h1", "zbv"}},
      {"stage_layers", {"even", "uneven", "balanced"}},
      {"recompute", {"none", "selective", "full", "first_layers"}},
  };
  return list;
}

constexpr std::array kDegrees = {1, 2, 4};

const char* word(const Row& row, GridAxis axis) {
  return axes()[axis].words[static_cast<std::size_t>(row[axis])];
}

int degree(const Row& row, GridAxis axis) {
  return kDegrees[static_cast<std::size_t>(row[axis])];
}

// Parts of the model that lie on one stage, one after the other around the pipeline.
int chunks_of_a_stage(const Row& row) {
  const std::string schedule = row[kSchedule] == kUnused ? "" : word(row, kSchedule);
  return schedule == "interleaved" || schedule == "zbv" ? 2 : 1;
}

// Layers of each chunk when they are said: one, but for the second.
std::string uneven(int chunks) {
  std::vector<int> layers(static_cast<std::size_t>(chunks), 1);
  layers[1] = 2;
  return fmt::format("[{}]", fmt::join(layers, ", "));
}

int layers_of(const Row& row) {
  const int chunks = degree(row, kPp) * chunks_of_a_stage(row);
  if (row[kStageLayers] == kUnused) return 2;
  return std::string(word(row, kStageLayers)) == "even" ? chunks : chunks + 1;
}

Layout layout_of(const Row& row) {
  Layout layout{.dp = degree(row, kDp),
                .accumulation = 1 + row[kAccumulation],
                .tp = degree(row, kTp),
                .sp = degree(row, kSp),
                .pp = degree(row, kPp),
                .recompute = word(row, kRecompute)};
  layout.shard_sequence = row[kShardSequence] == 1;
  layout.overlap_chunks = row[kOverlapChunks] == 1 ? 3 : 1;
  if (row[kMethod] != kUnused) layout.method = word(row, kMethod);
  layout.zero = row[kZero] > 3 ? row[kZero] - 3 : row[kZero];
  if (row[kZero] > 3) layout.dp_shard = layout.dp * layout.sp / 2;
  if (layout.pp > 1) {
    layout.schedule = word(row, kSchedule);
    if (layout.schedule == "interleaved") layout.virtual_stages = 2;
    if (std::string(word(row, kStageLayers)) == "uneven")
      layout.stage_layers = uneven(layout.pp * chunks_of_a_stage(row));
  }
  if (layout.recompute == "first_layers") {
    layout.recompute = "full";
    layout.recompute_layers = 1;
  }
  return layout;
}

std::string model_of(const Row& row) {
  const std::string family = word(row, kModel);
  const std::string layers = fmt::format("num_layers: {}", layers_of(row));
  if (family == "gpt2") return "model={family: gpt2, num_kv_heads: 8, " + layers + "}";
  if (family == "qwen2")
    return "model={family: qwen2, num_kv_heads: 4, tie_embeddings: true, " + layers + "}";
  return "model={family: llama, " + layers + "}";
}

// Three micro-batches want a batch that three divides.
std::int64_t global_batch(const Layout& layout) {
  return layout.accumulation == 3 ? 12 : 16;
}

std::vector<std::string> task_of(const Row& row) {
  return {model_of(row), std::string("data.document_mask=") + word(row, kDocumentMask)};
}

std::vector<std::string> overrides_of(const Row& row) {
  const Layout layout = layout_of(row);
  std::vector<std::string> list = overrides_of(layout, global_batch(layout));
  for (std::string& line : task_of(row)) list.push_back(std::move(line));
  if (row[kOptimizer] == 1) list.push_back("optimizer={name: sgd, lr: 0.5}");
  return list;
}

// What means nothing beside the other values is not there.
void leave_out_unused(Row& row) {
  if (degree(row, kTp) == 1) row[kShardSequence] = row[kOverlapChunks] = kUnused;
  if (degree(row, kSp) == 1) row[kMethod] = kUnused;
  if (degree(row, kPp) == 1) row[kSchedule] = row[kStageLayers] = kUnused;
}

bool has_room_for_shards(const Row& row) {
  const int group = degree(row, kDp) * degree(row, kSp);
  return row[kZero] == 0 || group >= (row[kZero] > 3 ? 4 : 2);
}

std::string name_of(const Row& row) {
  std::vector<std::string> words;
  for (std::size_t a = 0; a < kNumAxes; ++a)
    if (row[a] != kUnused) words.push_back(fmt::format("{} {}", axes()[a].name, word(row, GridAxis(a))));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string summary_of(const Covering& covering) {
  std::string text =
      fmt::format("{} jobs hold {} of {} pairs of values that can stand together ({} in all)\n",
                  covering.rows.size(),
                  covering.covered,
                  covering.possible,
                  covering.pairs);
  for (std::size_t a = 0; a < kNumAxes; ++a) {
    std::vector<std::string> words;
    for (std::size_t v = 0; v < axes()[a].words.size(); ++v)
      words.push_back(fmt::format("{} x{}", axes()[a].words[v], covering.uses[a][v]));
    text += fmt::format("  {:<18} {}\n", axes()[a].name, fmt::join(words, ", "));
  }
  return text;
}

}  // namespace

std::optional<JobSpec> grid_spec(const std::vector<std::string>& overrides) {
  JobReport report = check_job_text(kGridJob, "grid.yaml", {.overrides = overrides});
  if (!report.job) return std::nullopt;
  return std::move(report.job->spec);
}

Grid make_grid(int ranks, bool exactly, std::size_t min_jobs, std::size_t max_jobs) {
  CoveringOptions options{.min_rows = min_jobs, .max_rows = max_jobs};
  for (const AxisValues& axis : axes()) options.values.push_back(static_cast<int>(axis.words.size()));
  options.accepts = [=](Row& row) {
    leave_out_unused(row);
    const int world = layout_of(row).ranks();
    if (world > ranks || (exactly && world != ranks) || !has_room_for_shards(row)) return false;
    return grid_spec(overrides_of(row)).has_value();
  };
  Grid grid{.covering = cover_pairs(options)};
  for (const Row& row : grid.covering.rows)
    grid.jobs.push_back({.name = name_of(row),
                         .task = task_of(row),
                         .layout = layout_of(row),
                         .overrides = overrides_of(row)});
  grid.summary = summary_of(grid.covering);
  return grid;
}

}  // namespace llmtrain::test
