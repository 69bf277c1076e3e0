#include "llmtrain/train/build.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/data/batch_loader.hpp"
#include "llmtrain/data/corpus.hpp"
#include "llmtrain/job/lr_schedule.hpp"
#include "llmtrain/job/pipeline_plan.hpp"
#include "llmtrain/model/model_chunk.hpp"
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/parallel/gradient_reducer.hpp"
#include "llmtrain/parallel/parameter_gather.hpp"
#include "llmtrain/parallel/replica_gradients.hpp"
#include "llmtrain/parallel/tied_gradients.hpp"
#include "llmtrain/placement/parameter_table.hpp"
#include "llmtrain/placement/sequence_cut.hpp"
#include "llmtrain/placement/stage_table.hpp"
#include "llmtrain/placement/zero_place.hpp"
#include "llmtrain/schedule/held_by_stage.hpp"
#include "llmtrain/shm/region.hpp"
#include "llmtrain/sizing/flops.hpp"
#include "llmtrain/sizing/pipeline_traffic.hpp"
#include "llmtrain/tensor/memory_pool.hpp"
#include "llmtrain/train/checkpointer.hpp"
#include "llmtrain/train/compute_setup.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/evaluator.hpp"
#include "llmtrain/train/gradient_norm.hpp"
#include "llmtrain/train/open_data.hpp"
#include "llmtrain/train/peak.hpp"
#include "llmtrain/train/pipeline.hpp"
#include "llmtrain/train/rank_totals.hpp"
#include "llmtrain/train/step_reporter.hpp"

namespace llmtrain {
namespace {

// Ranks are numbered node by node. Empty for one node.
std::vector<int> hosts_of(const RunPlan& plan) {
  std::vector<int> hosts;
  if (plan.nodes == 1) return hosts;
  for (int rank = 0; rank < plan.world_size; ++rank) hosts.push_back(rank / plan.procs_per_node);
  return hosts;
}

int stage_of(const RankContext& context) {
  return coord_of(context.plan.mesh, context.request.rank).pp;
}

MeshCommsOptions comms_options(RankContext& context, const StageMap& map) {
  MeshCommsOptions options{.shape = context.plan.mesh,
                           .global_rank = context.request.rank,
                           .tensor_replicas = kv_head_replicas(context.spec.model, context.plan.mesh.tp),
                           .shard_size = zero_stage(context.spec.parallelism) > 0
                                             ? context.spec.parallelism.dp_shard.value_or(0)
                                             : 0,
                           .host_of_rank = hosts_of(context.plan),
                           .cuda = context.spec.run.device == Device::kCuda,
                           .timeout = std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::duration<double>(context.spec.resilience.collective_timeout_s)),
                           .tied_embedding = is_tied_over_stages(context.spec.model, map),
                           .check_calls = context.spec.monitoring.check_collectives,
                           .jitter = context.faults.jitter(),
                           .call_faults = context.faults.call_faults(),
                           .trace = context.spec.monitoring.trace_collectives,
                           .black_box = context.black_box.get()};
  options.address = context.request.address;
  options.store = context.store;
  if (context.request.shm_fd >= 0)
    options.region = value_or_throw(ShmRegion::map(context.request.shm_fd, context.plan.procs_per_node));
  return options;
}

TensorPlace tensor_place(const RankContext& context) {
  const MeshShape& mesh = context.plan.mesh;
  return {.rank = coord_of(mesh, context.request.rank).tp, .size = mesh.tp};
}

TableOptions table_options(const JobSpec& spec) {
  return {.decay_embeddings = spec.optimizer.decay_embeddings,
          .shard_sequence = spec.parallelism.tp_shard_sequence};
}

// The pieces of the model on this rank's stage.
std::vector<SegmentRange> chunks_of(const RankContext& context, const PipelinePlan& plan) {
  return held_by_stage<SegmentRange>(plan.schedule.map, plan.segments, stage_of(context));
}

// Where masters and moments are counted.
MemoryPool optimizer_pool(const JobSpec& spec) {
  return spec.memory.offload_optimizer == OptimizerOffload::kCpu ? MemoryPool::kHostOptimizer
                                                                 : MemoryPool::kOptimizer;
}

std::vector<OptimizerSlice> optimizer_slices(const FlatParameters& parameters, bool offloads) {
  std::vector<OptimizerSlice> slices;
  for (SegmentIndex s = 0; s < parameters.num_segments(); ++s)
    for (const ParamSlice& slice : parameters.segment(s).slices)
      if (slice.owned.size() > 0)
        slices.push_back({.name = slice.spec->name,
                          .weight = slice.own_weight,
                          .master = slice.master,
                          .grad = slice.own_grad,
                          .decay = slice.spec->decay});
  if (offloads)
    for (OptimizerSlice& slice : slices) slice = on_host(std::move(slice));
  return slices;
}

// Moments count as optimizer memory, not as activations.
std::unique_ptr<Optimizer> make_counted_optimizer(const JobSpec& spec, const FlatParameters& parameters) {
  const PoolScope scope(optimizer_pool(spec));
  const bool offloads = spec.memory.offload_optimizer == OptimizerOffload::kCpu;
  return make_optimizer(spec.optimizer, optimizer_slices(parameters, offloads));
}

// Ranks of an sp group read the same samples, and each computes its own tokens of them.
SequenceCut token_cut(const RankContext& context) {
  return sequence_cut(context.spec.parallelism,
                      context.spec.data.seq_length,
                      coord_of(context.plan.mesh, context.request.rank).sp);
}

// What travels between stages. Where tp ranks keep a part of the tokens each, they may cut through a
// sequence, but not through a micro-batch.
HiddenShape hidden_shape(const RankContext& context) {
  const int parts = context.spec.parallelism.tp_shard_sequence ? context.plan.mesh.tp : 1;
  return {.tokens_per_sequence = token_cut(context).own_length(),
          .parts = parts,
          .width = context.spec.model.hidden_size,
          .dtype = context.spec.precision.compute};
}

BatchShape batch_shape(const RankContext& context) {
  const RunPlan& plan = context.plan;
  BatchShape shape{.global_batch_size = plan.global_batch_size,
                   .micro_batch_size = plan.micro_batch_size,
                   .dp_rank = coord_of(plan.mesh, context.request.rank).dp,
                   .dp_size = plan.mesh.dp,
                   .finds_documents = context.spec.data.document_mask};
  if (context.plant == Plant::kWrongSample && shape.dp_rank + 1 == shape.dp_size) shape.dp_rank = 0;
  return shape;
}

// A planted bug that only the last rank has.
bool errs_alone(const RankContext& context, Plant plant) {
  return context.plant == plant && context.request.rank + 1 == context.plan.world_size;
}

ModelSpec computed_model(const RankContext& context) {
  ModelSpec model = context.spec.model;
  if (errs_alone(context, Plant::kRopeBase)) model.rope_theta *= 2;
  return model;
}

std::uint64_t init_seed(const RankContext& context) {
  return context.spec.run.seed + (errs_alone(context, Plant::kOtherInit) ? 1 : 0);
}

LrSchedule lr_schedule(const JobSpec& spec, const RunPlan& plan) {
  return {.style = spec.lr_schedule.style,
          .peak = spec.optimizer.lr,
          .warmup_steps = plan.warmup_steps,
          .total_steps = plan.total_steps,
          .decay_steps = plan.decay_steps,
          .min_lr_ratio = spec.lr_schedule.min_lr_ratio};
}

}  // namespace

// Members stand in the order of construction; each uses only those above it.
struct Rank::Parts {
  explicit Parts(RankContext& rank_context);

  RankContext& context;
  PipelinePlan plan;
  std::vector<ParamSpec> table;  // of the whole model
  // From here on every collective of this run is known by name.
  MeshComms comms;
  // From here on no parameter is created or renamed.
  FlatParameters parameters;
  ParameterGather weights;
  GradientReducer reducer;
  Pipeline pipeline;
  ReplicaGradients replicas;
  TiedGradients tied;
  GradientNorm norm;
  std::unique_ptr<Optimizer> optimizer;
  Checkpointer checkpoints;
  Progress progress;
  // From here on the state is that of the last committed step.
  Corpus corpus;
  BatchLoader batches;
  std::optional<Evaluator> evaluator;
  LrSchedule lr;
  StepReporter reporter;
  std::optional<Trainer> trainer;

  Progress load_or_initialize();
  std::vector<ModelChunk> make_chunks();
  std::optional<Evaluator> make_evaluator();
  StepReporter::Options reporter_options();
  RunStarted started() const;
};

Rank::Parts::Parts(RankContext& rank_context)
    : context(rank_context),
      plan(value_or_throw(plan_pipeline(context.spec))),
      table(parameter_table(context.spec.model, table_options(context.spec))),
      comms(comms_options(context, plan.schedule.map)),
      parameters(stage_table(table, chunks_of(context, plan)),
                 context.spec.precision.compute,
                 tensor_place(context),
                 zero_place(context.spec.parallelism, comms.shards().rank()),
                 optimizer_pool(context.spec)),
      weights(parameters, comms.shards(), context.plant),
      reducer(parameters,
              comms.shards(),
              comms.shard_replicas(),
              {.wire = context.spec.precision.reduce,
               .overlap = context.spec.parallelism.overlap,
               .bucket_size = context.spec.parallelism.bucket_size}),
      pipeline(plan.schedule,
               stage_of(context),
               make_chunks(),
               {.activations = comms.axis(Axis::kPipeline), .gradients = comms.pipeline_gradients()},
               hidden_shape(context),
               context.plant),
      replicas(parameters, comms.axis(Axis::kTensor), comms.tensor_replicas(), context.plant),
      tied(parameters, comms.embedding(), context.plant),
      norm(parameters, comms.axis(Axis::kTensor), comms.shards(), comms.axis(Axis::kPipeline), context.plant),
      optimizer(make_counted_optimizer(context.spec, parameters)),
      checkpoints(
          context, table, parameters, *optimizer, comms, value_or_throw(tokenizer_copy(context.spec))),
      progress(load_or_initialize()),
      corpus(value_or_throw(open_corpus(corpus_config(context.spec)))),
      batches(value_or_throw(
          BatchLoader::start(corpus.train,
                             batch_shape(context),
                             {.first_step = progress.step + 1, .prefetch = context.spec.data.prefetch}))),
      evaluator(make_evaluator()),
      lr(lr_schedule(context.spec, context.plan)),
      reporter(reporter_options(), context.events) {}

Progress Rank::Parts::load_or_initialize() {
  Progress found;
  if (context.request.resume_path.empty())
    parameters.initialize(init_seed(context));
  else
    found = checkpoints.restore(context.request.resume_path);
  weights.on_update();
  return found;
}

std::vector<ModelChunk> Rank::Parts::make_chunks() {
  const ModelSpec model = computed_model(context);
  TransformerOptions options{.max_positions = context.spec.data.seq_length,
                             .tensor_group = &comms.axis(Axis::kTensor),
                             .shard_sequence = context.spec.parallelism.tp_shard_sequence,
                             .overlap_chunks = context.spec.parallelism.tp_overlap_chunks.value(),
                             .sequence_group = &comms.axis(Axis::kSequence),
                             .sp_method = context.spec.parallelism.sp_method,
                             .weights = &weights,
                             .gradients = &reducer,
                             .memory = context.spec.memory,
                             .plant = context.plant};
  options.rope = position_tables(model, options.max_positions, context.spec.precision.compute);
  std::vector<ModelChunk> chunks;
  for (const SegmentRange& segments : chunks_of(context, plan))
    chunks.emplace_back(model, parameters, segments, options);
  return chunks;
}

std::optional<Evaluator> Rank::Parts::make_evaluator() {
  if (!corpus.valid || context.plan.eval_interval == 0) return std::nullopt;
  const BatchShape shape = batch_shape(context);
  EvalPlan samples(*corpus.valid, context.spec.train.eval_steps * context.plan.global_batch_size, shape);
  return Evaluator(std::move(samples), token_cut(context), pipeline, comms);
}

// The peak is measured at the first start only, never at a restart: a restart must be quick.
StepReporter::Options Rank::Parts::reporter_options() {
  StepReporter::Options options{
      .reports = context.is_first(),
      .tokens_per_step = context.plan.tokens_per_step,
      .world_size = context.plan.world_size,
      .flops_per_token = model_flops(context.spec.model, context.spec.data.seq_length).per_token(),
      .peak_flops = known_peak(context),
      .measure_peak = {}};
  if (context.request.incarnation == 0)
    options.measure_peak = [this] { return measure_and_store_peak(context); };
  return options;
}

RunStarted Rank::Parts::started() const {
  const MeshShape& mesh = context.plan.mesh;
  return {.run = context.spec.run.name,
          .world_size = context.plan.world_size,
          .first_step = progress.step,
          .total_steps = context.plan.total_steps,
          .layout =
              fmt::format("pp{} dp{} sp{} tp{}{}",
                          mesh.pp,
                          mesh.dp,
                          mesh.sp,
                          mesh.tp,
                          parameters.zero().stage > 0 ? fmt::format(" zero{}", parameters.zero().stage) : ""),
          .parameters = parameter_count(table),
          .compute_threads = compute_threads(context),
          .cpu = cpu_capability()};
}

Rank::Rank(RankContext& context) {
  set_compute_threads(compute_threads(context));
  parts_ = std::make_unique<Parts>(context);
  Parts& p = *parts_;
  if (context.is_first()) context.events.emit(p.started());
  p.trainer.emplace(TrainerParts{.spec = context.spec,
                                 .plan = context.plan,
                                 .lr = p.lr,
                                 .cut = token_cut(context),
                                 .comms = p.comms,
                                 .parameters = p.parameters,
                                 .pipeline = p.pipeline,
                                 .replicas = p.replicas,
                                 .reducer = p.reducer,
                                 .tied = p.tied,
                                 .norm = p.norm,
                                 .optimizer = *p.optimizer,
                                 .weights = p.weights,
                                 .batches = p.batches,
                                 .evaluator = p.evaluator ? &*p.evaluator : nullptr,
                                 .checkpoints = p.checkpoints,
                                 .reporter = p.reporter,
                                 .events = context.events,
                                 .faults = context.faults,
                                 .black_box = *context.black_box,
                                 .plant = context.plant},
                    p.progress);
}

Rank::~Rank() = default;

Trainer& Rank::trainer() {
  return *parts_->trainer;
}

const Pipeline& Rank::pipeline() const {
  return parts_->pipeline;
}

const FlatParameters& Rank::parameters() const {
  return parts_->parameters;
}

const Optimizer& Rank::optimizer() const {
  return *parts_->optimizer;
}

void Rank::close() {
  Parts& p = *parts_;
  p.comms.world().barrier();
  report_totals(p.context, p.comms.totals(), p.parameters, *p.optimizer);
  p.comms.shutdown();
}

}  // namespace llmtrain
