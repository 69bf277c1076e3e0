#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "llmtrain/spec/job_spec.hpp"

// The one list of fields of every section: name, member, what it means, what is allowed.
//
// Reader, writer, --set, the reference page and the JSON schema all walk this list. A field that is not
// here does not exist; a field that is here works.
namespace llmtrain {

// What a value may be, beyond its type. `words` lists allowed texts, separated by `|`.
struct Allowed {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  const char* words = nullptr;
};

constexpr Allowed anything() {
  return {};
}
constexpr Allowed at_least(double min) {
  return {.min = min};
}
constexpr Allowed above(double min) {
  return {.min = min, .above_min = true};
}
constexpr Allowed between(double min, double max) {
  return {.min = min, .max = max};
}
constexpr Allowed words(const char* list) {
  return {.words = list};
}

struct FieldInfo {
  const char* name;
  const char* doc;
  Allowed allowed;
};

// Structs whose fields are listed below.
template <class S, class Spec>
concept FieldsOf = std::same_as<std::remove_const_t<S>, Spec>;

// Sizes are bounded so that no product of them overflows 64 bits.
inline constexpr double kMaxCount = 1e6;
inline constexpr double kMaxExtent = 1 << 27;
// A month; longer waits are mistakes.
inline constexpr double kMaxSeconds = 31 * 86400;
inline constexpr double kMaxLossScale = 1LL << 40;

void visit_fields(FieldsOf<RunSpec> auto& s, auto&& v) {
  v({"name", "names the run; part of paths, so without `/`", anything()}, s.name);
  v({"dir", "run directory, shared by all nodes", anything()}, s.dir);
  v({"seed", "decides initial weights and the order of data", anything()}, s.seed);
  v({"device", "what ranks compute on; `auto` = cuda where it is available, else cpu", anything()}, s.device);
}

void visit_fields(FieldsOf<RopeScalingSpec> auto& s, auto&& v) {
  v({"type", "how rotary frequencies are stretched for longer contexts", anything()}, s.type);
  v({"factor", "stretch", at_least(1)}, s.factor);
  v({"low_freq_factor", "llama3: wavelengths above original / this are stretched fully", above(0)},
    s.low_freq_factor);
  v({"high_freq_factor", "llama3: wavelengths below original / this are kept", above(0)}, s.high_freq_factor);
  v({"original_max_position", "llama3: context length before stretching", between(1, kMaxExtent)},
    s.original_max_position);
}

void visit_fields(FieldsOf<ModelSpec> auto& s, auto&& v) {
  v({"preset", "a known model by size; fields given beside it override it", anything()}, s.preset);
  v({"family", "chooses the defaults of the fields below", anything()}, s.family);
  v({"vocab_size", "rows of the embedding", between(1, kMaxExtent)}, s.vocab_size);
  v({"hidden_size", "width of the residual stream", between(1, kMaxCount)}, s.hidden_size);
  v({"num_layers", "transformer blocks", between(1, 10000)}, s.num_layers);
  v({"num_heads", "query heads", between(1, 65536)}, s.num_heads);
  v({"num_kv_heads", "key and value heads; `auto` = num_heads", between(1, 65536)}, s.num_kv_heads);
  v({"head_dim", "width of one head; `auto` = hidden_size / num_heads", between(1, 65536)}, s.head_dim);
  v({"ffn_hidden_size",
     "width of the MLP; `auto` = 4 x hidden, or 8/3 x hidden rounded up to 64 when gated",
     between(1, kMaxExtent)},
    s.ffn_hidden_size);
  v({"max_position", "rows of a learned position table; `auto` = data.seq_length", between(1, kMaxExtent)},
    s.max_position);
  v({"norm", "normalisation before attention, MLP and head", anything()}, s.norm);
  v({"norm_eps", "added to the variance", above(0)}, s.norm_eps);
  v({"position", "how positions enter", anything()}, s.position);
  v({"rope_theta", "base of the rotary frequencies", above(0)}, s.rope_theta);
  v({"rope_scaling", "longer contexts by stretched rotary frequencies", anything()}, s.rope_scaling);
  v({"mlp", "activation; swiglu and geglu are gated", anything()}, s.mlp);
  v({"qkv_bias", "bias of the query, key and value projections", anything()}, s.qkv_bias);
  v({"attention_out_bias", "bias of the attention's output projection", anything()}, s.attention_out_bias);
  v({"mlp_bias", "biases of the MLP", anything()}, s.mlp_bias);
  v({"qk_norm", "RMS norm over head_dim of every query and key head", anything()}, s.qk_norm);
  v({"tie_embeddings", "the head shares the embedding's weights", anything()}, s.tie_embeddings);
  v({"init_std",
     "standard deviation of initial weights; output projections divide it by sqrt(2 x layers)",
     above(0)},
    s.init_std);
}

void visit_fields(FieldsOf<DataSourceSpec> auto& s, auto&& v) {
  v({"path", "a token file pair without its suffix, a directory with one, or `synthetic`", anything()},
    s.path);
  v({"weight", "share of the samples, relative to the other sources", above(0)}, s.weight);
  v({"max_epochs", "at most so often; `auto` = as often as the run needs", above(0)}, s.max_epochs);
}

void visit_fields(FieldsOf<DataSpec> auto& s, auto&& v) {
  v({"seq_length", "tokens of one sample", between(1, kMaxExtent)}, s.seq_length);
  v({"tokenizer", "tokenizer.json, a directory with one, or `bytes`; empty for synthetic data", anything()},
    s.tokenizer);
  v({"document_mask",
     "tokens attend to their own document only, where a sample holds several; boundaries are those of the "
     "token "
     "files",
     anything()},
    s.document_mask);
  v({"train", "sources to train on: a list, one map, or a path", anything()}, s.train);
  v({"valid", "sources to evaluate on, written like train", anything()}, s.valid);
  v({"valid_fraction",
     "share of train's tokens, in whole documents, held out when valid is empty",
     between(0, 0.5)},
    s.valid_fraction);
  v({"prefetch", "batches kept ready", between(0, 1024)}, s.prefetch);
}

void visit_fields(FieldsOf<ParallelismSpec> auto& s, auto&& v) {
  v({"tp",
     "tensor parallel degree: ranks that share the heads and the feed-forward width",
     between(1, kMaxCount)},
    s.tp);
  v({"pp", "pipeline stages", between(1, kMaxCount)}, s.pp);
  v({"dp", "data parallel degree; `auto` = whatever is left of the world", between(1, kMaxCount)}, s.dp);
  v({"sp",
     "ranks that share one sequence in attention (context parallelism); not Megatron's flag",
     between(1, kMaxCount)},
    s.sp);
  v({"sp_method",
     "how they do it: ring = keys and values travel around them, ulysses = they change over to a part of the "
     "heads, allgather = each sees all keys and values",
     anything()},
    s.sp_method);
  v({"tp_shard_sequence",
     "tensor parallel ranks keep a part of the tokens each where weights are not cut; Megatron's sequence "
     "parallel",
     anything()},
    s.tp_shard_sequence);
  v({"tp_overlap_chunks",
     "pieces that a micro-batch's tokens are cut into so that tensor parallel ranks send one while they "
     "compute the next; 1 = nothing overlaps; `auto` = 4 on GPUs, 1 on CPUs, where ranks share cores",
     between(1, 64)},
    s.tp_overlap_chunks);
  v({"zero_stage",
     "what data parallel ranks hold a part of instead of all: 0 nothing, 1 optimizer state and master "
     "weights, 2 "
     "gradients too, 3 and weights; FULL_SHARD and other names of FSDP and Megatron are read as well",
     between(0, 3)},
    s.zero_stage);
  v({"dp_shard",
     "data parallel ranks that share one copy of what zero_stage spreads, e.g. those of a node (hybrid "
     "sharding); "
     "`auto` = all",
     between(1, kMaxCount)},
    s.dp_shard);
  v({"reshard_after_forward",
     "zero_stage 3: drop the gathered weights of a layer after each use; false keeps them over the "
     "micro-batches of a step, which costs memory and saves traffic",
     anything()},
    s.reshard_after_forward);
  v({"overlap", "reduce gradients behind the backward pass; false = after it", anything()}, s.overlap);
  v({"bucket_size",
     "most elements that travel in one all_reduce of gradients; `auto` = a whole layer",
     between(1, 1e12)},
    s.bucket_size);
  v({"schedule",
     "order in which pipeline stages compute their micro-batches: gpipe, 1f1b, interleaved, zb-h1, zbv, the "
     "path of a .csv file, or the text of one, which is what a path resolves to (docs/SCHEDULES.md)",
     anything()},
    s.schedule);
  v({"virtual_stages",
     "pieces of the model on each pipeline stage; `auto` = what the schedule wants (1, or 2)",
     between(1, 1024)},
    s.virtual_stages);
  v({"stage_layers",
     "layers of each virtual stage, from the model's input to its output; `auto` = balanced, counting the "
     "head",
     between(0, 10000)},
    s.stage_layers);
}

void visit_fields(FieldsOf<BatchSpec> auto& s, auto&& v) {
  v({"micro_batch_size", "sequences of one forward pass of one rank", between(1, kMaxCount)},
    s.micro_batch_size);
  v({"gradient_accumulation_steps",
     "micro-batches of one rank in a step; `auto` follows from global_batch_size",
     between(1, kMaxCount)},
    s.gradient_accumulation_steps);
  v({"global_batch_size",
     "sequences of all ranks in a step; `auto` = micro x accumulation x dp",
     between(1, 1e9)},
    s.global_batch_size);
}

void visit_fields(FieldsOf<LossScaleSpec> auto& s, auto&& v) {
  v({"initial", "scale of the first step, a power of two", between(1, kMaxLossScale)}, s.initial);
  v({"window", "steps without an overflow after which the scale doubles", between(1, 1e9)}, s.window);
  v({"hysteresis", "overflows after which it halves, counted anew when it doubles", between(1, 1000)},
    s.hysteresis);
  v({"floor", "it never halves below this; steps that overflow here count as diverged", above(0)}, s.floor);
}

void visit_fields(FieldsOf<PrecisionSpec> auto& s, auto&& v) {
  v({"compute", "type of weights and activations in forward and backward", anything()}, s.compute);
  v({"reduce",
     "type in which gradients travel between data parallel ranks, added up in fp32 on the way; `auto` = the "
     "type in which they are kept: the wider of fp32 and compute",
     anything()},
    s.reduce);
  v({"loss_scale", "fp16: what the loss is multiplied by, so that small gradients are not lost", anything()},
    s.loss_scale);
}

void visit_fields(FieldsOf<MemorySpec> auto& s, auto&& v) {
  v({"recompute",
     "what of a block's forward pass is computed again in backward instead of kept: none, selective = norms, "
     "attention and MLP activations but no product with weights, full = everything but the block's input",
     anything()},
    s.recompute);
  v({"recompute_layers",
     "in the first blocks of every pipeline chunk only; `auto` = in all",
     between(0, 10000)},
    s.recompute_layers);
  v({"offload_optimizer",
     "where master weights and moments lie, and the update is computed: none = on the rank's device, cpu = "
     "in "
     "host memory",
     anything()},
    s.offload_optimizer);
}

void visit_fields(FieldsOf<OptimizerSpec> auto& s, auto&& v) {
  v({"name", "update rule", anything()}, s.name);
  v({"lr", "peak learning rate", at_least(0)}, s.lr);
  v({"betas", "adamw: decay of the first and second moment, each in [0, 1)", between(0, 1)}, s.betas);
  v({"eps", "adamw: added to the root of the second moment", above(0)}, s.eps);
  v({"weight_decay", "decoupled weight decay; never on norms and biases", at_least(0)}, s.weight_decay);
  v({"decay_embeddings", "also decay embeddings", anything()}, s.decay_embeddings);
  v({"momentum", "sgd: decay of the velocity, in [0, 1)", between(0, 1)}, s.momentum);
  v({"clip_grad", "largest global gradient norm; 0 = no clipping", at_least(0)}, s.clip_grad);
}

void visit_fields(FieldsOf<LrScheduleSpec> auto& s, auto&& v) {
  v({"style", "shape after the warm-up", anything()}, s.style);
  v({"warmup", "length of the linear warm-up from 0", anything()}, s.warmup);
  v({"decay", "wsd: length of the final decay", anything()}, s.decay);
  v({"min_lr_ratio", "last learning rate as a share of the peak", between(0, 1)}, s.min_lr_ratio);
}

void visit_fields(FieldsOf<TrainSpec> auto& s, auto&& v) {
  v({"duration", "length of the run, in steps, tokens or samples", anything()}, s.duration);
  v({"log_interval", "steps between lines on the console (metrics.jsonl has every step)", at_least(1)},
    s.log_interval);
  v({"eval_interval", "between evaluations; 0 = never", anything()}, s.eval_interval);
  v({"eval_steps", "global batches of one evaluation", between(1, 1e9)}, s.eval_steps);
  v({"compute_threads", "per rank; 0 = cores of the node / ranks on it", between(0, 4096)},
    s.compute_threads);
}

void visit_fields(FieldsOf<CheckpointSpec> auto& s, auto&& v) {
  v({"interval", "between checkpoints; 0 = only at the end and on a stop", anything()}, s.interval);
  v({"keep_last", "newest checkpoints kept; 0 = all", at_least(0)}, s.keep_last);
  v({"keep_every", "checkpoints at multiples of this are kept for good; 0 = none", anything()}, s.keep_every);
  v({"save_initial", "also write step 0", anything()}, s.save_initial);
  v({"resume", "`auto` continues what the run directory holds; `never` refuses a used one", anything()},
    s.resume);
}

void visit_fields(FieldsOf<OnFailureSpec> auto& s, auto&& v) {
  v({"crash", "a worker ended by an exception or a signal", anything()}, s.crash);
  v({"node_lost", "a node's agent, or the node, is gone", anything()}, s.node_lost);
  v({"hang", "a worker lives and does not go on", anything()}, s.hang);
  v({"oom",
     "a worker was killed for memory; the second time in a row without a new step ends the job (67)",
     anything()},
    s.oom);
  v({"stopped_worker", "a worker is stopped (SIGSTOP) or frozen", anything()}, s.stopped_worker);
  v({"transport", "connections between living ranks broke", anything()}, s.transport);
  v({"data", "data cannot be read", anything()}, s.data);
  v({"divergence", "loss or gradients are not finite, resilience.max_skipped_steps in a row", anything()},
    s.divergence);
}

void visit_fields(FieldsOf<ResilienceSpec> auto& s, auto&& v) {
  v({"max_restarts", "of the workers, within restart_window_s", at_least(0)}, s.max_restarts);
  v({"restart_window_s",
     "time over which max_restarts counts, seconds; 0 = the life of one launch",
     between(0, kMaxSeconds)},
    s.restart_window_s);
  v({"no_progress_limit",
     "restarts in a row without a new step before the run stops with 67, or 68 if it hangs",
     at_least(1)},
    s.no_progress_limit);
  v({"collective_timeout_s", "deadline of one collective, seconds", above(0)}, s.collective_timeout_s);
  v({"stop_grace_s",
     "from TERM to KILL of a worker that does not end, seconds; after KILL it has as long again, between 3 "
     "and 30 "
     "s, and then its node is left out",
     at_least(0)},
    s.stop_grace_s);
  v({"max_skipped_steps", "non-finite steps in a row before the run stops", at_least(0)},
    s.max_skipped_steps);
  v({"startup_timeout_s",
     "from the start of the workers to their first step, seconds",
     Allowed{.min = 0, .max = kMaxSeconds, .above_min = true}},
    s.startup_timeout_s);
  v({"hang_factor",
     "a phase of a step that takes so many times its 99th percentile is a hang; 0 = never",
     between(0, 1e6)},
    s.hang_factor);
  v({"hang_min_s", "no phase is a hang before this, seconds", between(0, kMaxSeconds)}, s.hang_min_s);
  v({"straggler_share",
     "a rank whose computing, data or sending makes all steps longer by this share than that of the ranks "
     "which "
     "do the same work is reported as a straggler; 0 = nobody is",
     between(0, 1)},
    s.straggler_share);
  v({"elastic",
     "go on with fewer nodes, down to the MIN of launch.nodes, when a lost one stays away for 30 s (or "
     "join_timeout_s, if that is less) and no spare takes its place, and with all again when it is back; "
     "parallelism.dp follows, and the global batch stays",
     anything()},
    s.elastic);
  v({"on_failure",
     "what follows a failure, by its class: restart; restart_excluding_node = the node to blame is refused "
     "until the end of the job, and a spare takes its place, or an elastic job goes on without it, or it "
     "ends "
     "with 64; stop = exit code 73 for data, 71 for divergence, 68 for hang, stopped_worker and transport, "
     "66 "
     "for the others",
     anything()},
    s.on_failure);
}

void visit_fields(FieldsOf<MonitoringSpec> auto& s, auto&& v) {
  v({"tensorboard", "write TensorBoard event files", anything()}, s.tensorboard);
  v({"trace_collectives", "keep the last collectives of every rank for diagnosis", anything()},
    s.trace_collectives);
  v({"check_collectives", "compare operation and shape of every collective over its group", anything()},
    s.check_collectives);
  v({"peak_tflops", "peak of one rank for MFU; `auto` = measured once per host", above(0)}, s.peak_tflops);
}

void visit_fields(FieldsOf<LogSpec> auto& s, auto&& v) {
  v({"max_bytes", "of one log file of a rank, then it is rotated; 0 = no limit", at_least(0)}, s.max_bytes);
  v({"keep", "rotated files of each rank; older ones are removed; 0 is as 1", between(0, 1000)}, s.keep);
  v({"tee", "whose output is on the console too: nobody's, the first rank's of each node, all", anything()},
    s.tee);
}

void visit_fields(FieldsOf<SlurmSpec> auto& s, auto&& v) {
  v({"partition", "sbatch --partition", anything()}, s.partition);
  v({"account", "sbatch --account", anything()}, s.account);
  v({"qos", "sbatch --qos", anything()}, s.qos);
  v({"gpus_per_node", "`auto` = launch.procs_per_node on GPUs, else none", between(0, 65536)},
    s.gpus_per_node);
  v({"cpus_per_task", "of each node's agent and its workers; `auto` = Slurm's own", between(1, 65536)},
    s.cpus_per_task);
  v({"time", "limit, as sbatch --time reads it: minutes, H:M:S or D-H:M:S", anything()}, s.time);
  v({"signal", "ahead of the limit, as sbatch --signal reads it; empty = none", anything()}, s.signal);
  v({"requeue", "put the job back into the queue when it was stopped in order", anything()}, s.requeue);
  v({"exclusive", "no other job on its nodes", anything()}, s.exclusive);
  v({"constraint", "sbatch --constraint", anything()}, s.constraint);
  v({"container", "image in which srun starts the agents (--container-image)", anything()}, s.container);
  v({"chain",
     "how jobs follow each other until the run is done: not, by dependency, or as an array that runs one at "
     "a time",
     anything()},
    s.chain);
  v({"max_chain", "jobs of a chain", between(1, 10000)}, s.max_chain);
  v({"exclude", "nodes that are not used", anything()}, s.exclude);
  v({"extra", "more options of sbatch, for example `--mem=0`", anything()}, s.extra);
}

void visit_fields(FieldsOf<LaunchSpec> auto& s, auto&& v) {
  v({"nodes",
     "hosts of the job; with MIN:MAX it is cut for MIN, and those beyond wait as spares; with "
     "resilience.elastic it is cut for MAX, and goes on with at least MIN",
     anything()},
    s.nodes);
  v({"procs_per_node", "ranks on each node; `auto` = pp x dp x sp x tp / nodes on CPUs", between(1, 65536)},
    s.procs_per_node);
  v({"env", "added to the environment of the workers", anything()}, s.env);
  v({"rdzv_endpoint",
     "HOST:PORT where nodes meet; empty = from the command line, the scheduler or the run directory",
     anything()},
    s.rdzv_endpoint);
  v({"rdzv_id", "nodes of one id meet; empty = run.name", anything()}, s.rdzv_id);
  v({"join_timeout_s",
     "how long nodes wait for the others, seconds",
     Allowed{.min = 0, .max = kMaxSeconds, .above_min = true}},
    s.join_timeout_s);
  v({"time_limit",
     "of this allocation, seconds: the last save begins early enough; `auto` = what the scheduler says",
     Allowed{.min = 0, .max = kMaxSeconds, .above_min = true}},
    s.time_limit);
  v({"stop_signals", "signals to the agent that ask for a save and an orderly stop", anything()},
    s.stop_signals);
  v({"log", "what workers print", anything()}, s.log);
  v({"slurm", "what `submit --target slurm` asks for", anything()}, s.slurm);
}

void visit_fields(FieldsOf<FaultSpec> auto& s, auto&& v) {
  v({"kind",
     "what happens: signals to the own process (kill, stop, segv, abort), exit, throw, sleep, nan in the "
     "loss, "
     "jitter in communication, oom = memory taken until the kernel ends it, skip_collective and wrong_shape "
     "= "
     "the next collective is left out or has other elements, io = a write of a save fails, drop_heartbeats = "
     "the agent of a node is silent",
     anything()},
    s.kind);
  v({"rank", "on which rank, or node for drop_heartbeats; -1 = all", at_least(-1)}, s.rank);
  v({"step", "at which step; -1 = any", at_least(-1)}, s.step);
  v({"point",
     "where in the step; data is while it waits for a batch; commit_manifest, commit_rename, commit_renamed "
     "and commit_done are right before the "
     "manifest, before the rename, after it, and before old checkpoints go; at step 0: start is before the "
     "ranks meet, load before a checkpoint is read, leave when the rank has taken leave of "
     "the others; end is after the last step",
     words("step|data|forward|backward|reduce|optimizer|save|commit|commit_manifest|commit_rename|commit_"
           "renamed|"
           "commit_done|start|load|end|leave")},
    s.point);
  v({"each", "once, or at every step that matches", anything()}, s.each);
  v({"ms",
     "sleep and drop_heartbeats: how long, milliseconds; jitter: the longest wait",
     between(0, 86400000)},
    s.ms);
  v({"code", "exit: the exit code", between(0, 255)}, s.code);
  v({"nth", "io: which write of the save fails, from 1", between(1, 1e9)}, s.nth);
  v({"error", "io: what the write fails with", anything()}, s.error);
  v({"mib", "oom: at most so much is taken, MiB", between(1, 1 << 20)}, s.mib);
  v({"seed", "jitter: of its random waits", at_least(0)}, s.seed);
  v({"incarnation", "in which start of the workers, from 0; -1 = in all", at_least(-1)}, s.incarnation);
}

void visit_fields(FieldsOf<JobSpec> auto& s, auto&& v) {
  v({"version", "of this format", between(1, 1)}, s.version);
  v({"run", "what the run is called and where it lives", anything()}, s.run);
  v({"model", "the transformer", anything()}, s.model);
  v({"data", "what it reads", anything()}, s.data);
  v({"parallelism", "how the job is cut over ranks", anything()}, s.parallelism);
  v({"batch", "sequences of a step", anything()}, s.batch);
  v({"precision", "number formats", anything()}, s.precision);
  v({"memory", "what is kept where, and what is computed again", anything()}, s.memory);
  v({"optimizer", "the update rule", anything()}, s.optimizer);
  v({"lr_schedule", "the learning rate over time", anything()}, s.lr_schedule);
  v({"train", "how long, and what happens in between", anything()}, s.train);
  v({"checkpoint", "what is saved when", anything()}, s.checkpoint);
  v({"resilience", "what happens when something breaks", anything()}, s.resilience);
  v({"monitoring", "what is recorded", anything()}, s.monitoring);
  v({"launch", "which processes run it", anything()}, s.launch);
  v({"faults", "faults to inject, for drills and tests", anything()}, s.faults);
}

}  // namespace llmtrain
