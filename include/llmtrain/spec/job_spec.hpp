#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/spec/node_count.hpp"
#include "llmtrain/spec/quantity.hpp"

// What the user asked for: plain structs with their defaults, one per section of the job spec.
//
// An absent optional is `auto`: it is filled by `job` (resolve), and after that every field of a spec
// is final. The only list of field names is fields.hpp; this header gives them types and defaults.
namespace llmtrain {

enum class Device { kAuto, kCpu, kCuda };

struct RunSpec {
  std::string name = "run";
  std::string dir = "runs/${run.name}";
  std::uint64_t seed = 1234;
  Device device = Device::kAuto;
};

enum class Family { kGpt2, kLlama, kMistral, kQwen2, kQwen3 };
enum class NormKind { kRmsNorm, kLayerNorm };
enum class PositionKind { kRope, kLearned };
enum class MlpKind { kSwiglu, kGeglu, kGelu, kGeluTanh };
enum class RopeScalingKind { kNone, kLinear, kLlama3 };

struct RopeScalingSpec {
  RopeScalingKind type = RopeScalingKind::kNone;
  double factor = 1.0;
  double low_freq_factor = 1.0;   // llama3
  double high_freq_factor = 4.0;  // llama3
  std::int64_t original_max_position = 8192;
};

// One decoder-only transformer described by data. `preset` and `family` choose defaults for the
// fields below them; a field that is given overrides both.
struct ModelSpec {
  std::string preset;  // empty: none
  Family family = Family::kLlama;
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::optional<std::int64_t> num_kv_heads;  // auto: num_heads
  std::optional<std::int64_t> head_dim;      // auto: hidden_size / num_heads
  std::optional<std::int64_t>
      ffn_hidden_size;  // auto: 4 x hidden (gelu) or 8/3 x hidden rounded up to 64 (gated)
  std::optional<std::int64_t> max_position;  // auto: data.seq_length; rows of a learned position table
  NormKind norm = NormKind::kRmsNorm;
  double norm_eps = 1e-5;
  PositionKind position = PositionKind::kRope;
  double rope_theta = 10000.0;
  RopeScalingSpec rope_scaling;
  MlpKind mlp = MlpKind::kSwiglu;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;  // RMS norm over head_dim of every query and key head
  bool tie_embeddings = false;
  double init_std = 0.02;
};

struct DataSourceSpec {
  std::string path;  // prefix or directory of a token file pair, or `synthetic`
  double weight = 1.0;
  std::optional<double> max_epochs;  // absent: as many as the run needs
};

struct DataSpec {
  std::int64_t seq_length = 1024;
  std::string tokenizer;       // tokenizer.json, a directory with one, `bytes`, or empty for synthetic data
  bool document_mask = false;  // attention stays inside a document
  std::vector<DataSourceSpec> train;
  std::vector<DataSourceSpec> valid;
  double valid_fraction = 0.0;  // share of train's documents held out when `valid` is empty
  int prefetch = 4;             // batches kept ready by the prefetch thread
};

// How the ranks that share a sequence share its attention.
enum class SequenceMethod { kRing, kUlysses, kAllGather };

struct ParallelismSpec {
  int tp = 1;
  int pp = 1;
  std::optional<int> dp;  // auto: whatever is left of the world
  int sp = 1;
  SequenceMethod sp_method = SequenceMethod::kRing;
  bool tp_shard_sequence = false;
  std::optional<int> tp_overlap_chunks;  // auto: 4 where communication runs beside computation, else 1
  int zero_stage = 0;  // what dp ranks share: 1 = optimizer state, 2 = gradients too, 3 = and weights
  std::optional<int> dp_shard;              // dp ranks that share one copy; auto: all of them
  bool reshard_after_forward = true;        // zero_stage 3: gathered weights are dropped after each use
  bool overlap = true;                      // gradients are reduced behind the backward pass
  std::optional<std::int64_t> bucket_size;  // elements of one all_reduce of gradients; auto: a whole segment

  // Of the pipeline. A schedule is a name, the path of a .csv file, or the text of such a file, which is what
  // a path resolves to: workers, checkpoints and reports do not depend on the file.
  std::string schedule = "1f1b";
  std::optional<int> virtual_stages;                      // of each stage; auto: what the schedule wants
  std::optional<std::vector<std::int64_t>> stage_layers;  // of each virtual stage; auto: balanced
};

struct BatchSpec {
  std::int64_t micro_batch_size = 1;
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::optional<std::int64_t> global_batch_size;  // one of the two is derived; both given = checked
};

// fp16 gradients are computed from a loss that is multiplied by a scale, which follows what overflows.
struct LossScaleSpec {
  double initial = 65536;
  std::int64_t window = 1000;  // steps without an overflow until it doubles
  int hysteresis = 2;          // overflows until it halves; counted anew when it doubles
  double floor = 1;
};

struct PrecisionSpec {
  DType compute = DType::kFp32;
  std::optional<DType> reduce;  // auto: max(fp32, compute)
  LossScaleSpec loss_scale{};
};

// What of a block's forward pass is computed again in backward instead of kept.
enum class Recompute { kNone, kSelective, kFull };
enum class OptimizerOffload { kNone, kCpu };

struct MemorySpec {
  Recompute recompute = Recompute::kNone;
  std::optional<std::int64_t> recompute_layers;  // the first blocks of every pipeline chunk; auto: all
  OptimizerOffload offload_optimizer = OptimizerOffload::kNone;
};

enum class OptimizerKind { kAdamW, kSgd };

struct OptimizerSpec {
  OptimizerKind name = OptimizerKind::kAdamW;
  double lr = 3e-4;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  bool decay_embeddings = false;
  double momentum = 0.0;   // sgd
  double clip_grad = 1.0;  // global norm; 0 = off
};

enum class LrStyle { kConstant, kLinear, kCosine, kWsd, kInverseSqrt };

struct LrScheduleSpec {
  LrStyle style = LrStyle::kCosine;
  Quantity warmup = steps(0);
  Quantity decay = {10, Quantity::Unit::kPercent};  // wsd: length of the final decay
  double min_lr_ratio = 0.1;
};

struct TrainSpec {
  Quantity duration = steps(0);  // required
  std::int64_t log_interval = 1;
  Quantity eval_interval = steps(0);  // 0 = never
  std::int64_t eval_steps = 10;
  int compute_threads = 0;  // per worker; 0 = cores of the node / workers on it
};

enum class ResumePolicy { kAuto, kNever };

struct CheckpointSpec {
  Quantity interval = steps(0);  // 0 = only at the end and on a stop
  int keep_last = 3;             // 0 = all
  Quantity keep_every = steps(0);
  bool save_initial = false;  // also write step 0
  ResumePolicy resume = ResumePolicy::kAuto;
};

// What follows when workers fail; a stop is final, a restart spends the budget.
enum class FailureAction { kRestart, kRestartExcludingNode, kStop };

// One action for each class of failures.
struct OnFailureSpec {
  FailureAction crash = FailureAction::kRestart;           // an exception or a signal
  FailureAction node_lost = FailureAction::kRestart;       // an agent or its host is gone
  FailureAction hang = FailureAction::kRestart;            // no progress by the deadline
  FailureAction oom = FailureAction::kRestart;             // killed for memory
  FailureAction stopped_worker = FailureAction::kRestart;  // by SIGSTOP, or frozen
  FailureAction transport = FailureAction::kRestart;       // connections between living ranks broke
  FailureAction data = FailureAction::kStop;               // token files cannot be read
  FailureAction divergence = FailureAction::kStop;         // loss or gradients are not finite
};

struct ResilienceSpec {
  int max_restarts = 10;
  double restart_window_s = 0;        // max_restarts within this time; 0 = over the life of one launch
  int no_progress_limit = 3;          // restarts in a row without a new step
  double collective_timeout_s = 600;  // deadline of one collective wait
  double stop_grace_s = 30;           // from TERM to KILL of a worker that does not end
  int max_skipped_steps = 20;         // non-finite steps in a row before the run stops with 71
  double startup_timeout_s = 1800;    // from the start of workers to their first step
  double hang_factor = 3;             // a phase may take so many times its p99; 0 = no such deadline
  double hang_min_s = 10;             // and at least this
  double straggler_share = 0.2;       // of a step, that a rank may cost more than its peers; 0 = any
  bool elastic = false;               // go on with fewer nodes when none can take a lost one's place
  OnFailureSpec on_failure;
};

struct MonitoringSpec {
  bool tensorboard = true;
  bool trace_collectives = true;
  bool check_collectives = false;     // compare operation and shape of every collective over the group
  std::optional<double> peak_tflops;  // per rank; auto: measured once per host, dtype and thread count
};

enum class StopSignal { kTerm, kInt, kHup, kUsr1, kUsr2 };
enum class LogTee { kNone, kFirst, kAll };

// The files that hold what workers write to stdout and stderr.
struct LogSpec {
  std::int64_t max_bytes = 0;  // of one file, then it is rotated; 0 = no limit
  int keep = 3;                // rotated files of a rank
  LogTee tee = LogTee::kNone;  // whose lines are on the console too
};

enum class SlurmChain { kNone, kDependency, kArray };

// What `submit --target slurm` writes into its script. Empty texts are left out.
struct SlurmSpec {
  std::string partition;
  std::string account;
  std::string qos;
  std::optional<int> gpus_per_node;  // auto: procs_per_node on GPUs, else none
  std::optional<int> cpus_per_task;  // auto: Slurm's own
  std::string time;
  std::string signal = "USR1@120";
  bool requeue = true;
  bool exclusive = false;
  std::string constraint;
  std::string container;
  SlurmChain chain = SlurmChain::kNone;
  int max_chain = 10;
  std::vector<std::string> exclude;  // node names
  std::vector<std::string> extra;    // options of sbatch, as they are
};

struct LaunchSpec {
  NodeCount nodes = 1;
  std::optional<int> procs_per_node;
  std::map<std::string, std::string> env;  // added to the workers' environment
  std::string rdzv_endpoint;               // HOST:PORT; empty: from the command line or the scheduler
  std::string rdzv_id;                     // empty: the run's name
  double join_timeout_s = 600;
  std::optional<double> time_limit;  // seconds of this allocation; auto: what the scheduler says
  std::vector<StopSignal> stop_signals = {StopSignal::kTerm, StopSignal::kInt, StopSignal::kUsr1};
  LogSpec log;
  SlurmSpec slurm;
};

enum class FaultKind {
  kKill,
  kStop,
  kSleep,
  kThrow,
  kNan,
  kJitter,
  kSegv,
  kAbort,
  kExit,
  kOom,
  kSkipCollective,
  kWrongShape,
  kIo,
  kDropHeartbeats
};
enum class FaultErrno { kEnospc, kEio, kEdquot, kErofs, kEstale };
enum class FaultEach { kOnce, kStep };

// One fault hook for drills and tests. It fires at `step` (and `point`) on `rank`; -1 means any.
// Unless `incarnation` is -1 it fires in that incarnation only, so that a restart runs through. A jitter is
// there all the time: random waits inside communication, which must not change what is computed.
struct FaultSpec {
  FaultKind kind = FaultKind::kSleep;
  int rank = -1;
  std::int64_t step = -1;
  std::string point = "step";  // a place in the step, or in the commit of a checkpoint
  FaultEach each = FaultEach::kOnce;
  std::int64_t ms = 0;                     // of a sleep or silence; the longest of a jitter
  int code = 1;                            // of an exit
  int nth = 1;                             // io: which write of the save fails, from 1
  FaultErrno error = FaultErrno::kEnospc;  // of an io fault
  std::int64_t mib = 1024;                 // oom: no more is allocated
  std::int64_t seed = 0;                   // of a jitter
  int incarnation = 0;
};

struct JobSpec {
  int version = 1;
  RunSpec run;
  ModelSpec model;
  DataSpec data;
  ParallelismSpec parallelism;
  BatchSpec batch;
  PrecisionSpec precision;
  MemorySpec memory;
  OptimizerSpec optimizer;
  LrScheduleSpec lr_schedule;
  TrainSpec train;
  CheckpointSpec checkpoint;
  ResilienceSpec resilience;
  MonitoringSpec monitoring;
  LaunchSpec launch;
  std::vector<FaultSpec> faults;
};

}  // namespace llmtrain
