#include "tests/job/job_support.hpp"
#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;
using test::check;
using test::kMinimal;
using test::messages_of;

namespace {

using Overrides = std::vector<std::string>;

struct Case {
  Overrides overrides;
  const char* message;
};

std::string shown(const Overrides& overrides) {
  std::string out;
  for (const std::string& argument : overrides) out += argument + "  ";
  return out;
}

}  // namespace

TEST_CASE("validate: every rule refuses what breaks it, and says what is allowed", "[job]") {
  const Case cases[] = {
      {{"parallelism.tp=3"},
       "job.yaml: --set parallelism.tp=3: parallelism.tp = 3: does not divide model.num_heads = 4, neither "
       "divides model.num_kv_heads = 4 nor is a multiple of it, does not divide model.ffn_hidden_size = 64; "
       "allowed with this model: 1, 2, 4"},
      {{"parallelism.tp=8"},
       "parallelism.tp = 8: does not divide model.num_heads = 4; allowed with this model: 1, 2, 4"},
      {{"parallelism.tp=4", "model.ffn_hidden_size=66"},
       "parallelism.tp = 4: does not divide model.ffn_hidden_size = 66; allowed with this model: 1, 2"},
      {{"parallelism.tp=4", "model.num_heads=12", "model.num_kv_heads=6", "model.head_dim=2"},
       "parallelism.tp = 4: neither divides model.num_kv_heads = 6 nor is a multiple of it; allowed with "
       "this model: 1, 2"},
      {{"parallelism.tp=4", "model.vocab_size=3"},
       "parallelism.tp = 4: is more than model.vocab_size = 3; allowed with this model: 1, 2"},
      {{"parallelism={tp: 4, tp_shard_sequence: true}", "data.seq_length=10"},
       "parallelism.tp_shard_sequence = true: parallelism.tp = 4 does not divide data.seq_length = 10; "
       "allowed: a data.seq_length of 12, or false"},
      {{"parallelism={tp: 2, tp_overlap_chunks: 65}"},
       "parallelism.tp_overlap_chunks = 65: out of range; allowed: a whole number from 1 to 64, or auto"},
      {{"parallelism={dp: 2, zero_stage: 4}"},
       "parallelism.zero_stage = 4: out of range; allowed: a whole number from 0 to 3"},
      {{"parallelism={dp: 6, zero_stage: 2, dp_shard: 4}"},
       "parallelism.dp_shard = 4: does not divide parallelism.dp = 6; allowed: 1, 2, 3, 6, or auto"},
      {{"parallelism.pp=5"},
       "parallelism.pp = 5: 5 x parallelism.virtual_stages 1 = 5 virtual stages, and model.num_layers = 2 "
       "makes "
       "4 pieces (the embedding, each layer, the head); allowed: at most 4"},
      {{"parallelism={pp: 4, schedule: interleaved}"},
       "parallelism.pp = 4: 4 x parallelism.virtual_stages 2 = 8 virtual stages, and model.num_layers = 2 "
       "makes "
       "4 pieces (the embedding, each layer, the head); allowed: at most 2, or schedule 1f1b, with one "
       "virtual stage on each stage"},
      {{"parallelism={pp: 2, schedule: interleaved, virtual_stages: 5}"},
       "= 10 virtual stages, and model.num_layers = 2 makes 4 pieces (the embedding, each layer, the head); "
       "allowed: schedule 1f1b, with one virtual stage on each stage"},
      {{"parallelism={pp: 2, schedule: 2f2b}"},
       "parallelism.schedule = 2f2b: unknown; allowed: gpipe, 1f1b, interleaved, zb-h1, zbv, or the path of "
       "a "
       ".csv file"},
      {{"parallelism={pp: 2, virtual_stages: 2}"},
       "parallelism.virtual_stages: virtual_stages = 2 does not fit schedule 1f1b, which runs one virtual "
       "stage "
       "on each stage; virtual_stages = 1 works, or schedule interleaved"},
      {{"parallelism={pp: 2, schedule: zbv, virtual_stages: 3}"},
       "parallelism.virtual_stages: virtual_stages = 3 does not fit schedule zbv"},
      {{"parallelism={pp: 2, stage_layers: [1]}"},
       "parallelism.stage_layers = [1]: 1 numbers for parallelism.pp 2 x parallelism.virtual_stages 1 = 2 "
       "virtual stages; allowed: for example [1, 1], or auto"},
      {{"parallelism={pp: 2, stage_layers: [2, 1]}"},
       "parallelism.stage_layers = [2, 1]: 3 layers in all, but model.num_layers is 2; allowed: for example "
       "[1, "
       "1], or auto"},
      {{"parallelism={pp: 3, stage_layers: [1, 0, 1]}"},
       "parallelism.stage_layers = [1, 0, 1]: virtual stage 1 holds nothing: only the first, with the "
       "embedding, "
       "and the last, with the head, can do without layers"},
      {{"parallelism={pp: 2, stage_layers: [1, x]}"},
       "parallelism.stage_layers[1] = x: not a whole number; allowed: a list: each a whole number from 0 to "
       "10000, or auto"},
      {{"parallelism={pp: 2, stage_layers: 2}"}, "parallelism.stage_layers = 2: a value does not fit here"},
      {{"parallelism={pp: 2, schedule: nowhere.csv}"}, "parallelism.schedule = nowhere.csv: "},
      {{"parallelism={pp: 2, schedule: \"0F0,,0B0,0F1,0B1\\n1F0,1F1,1B0,1B1\"}",
        "batch.gradient_accumulation_steps=2"},
       "parallelism.schedule: the given schedule: deadlock: row 1, column 3 (0B0) waits for 1B0, and row 2, "
       "column 2 (1F1) waits for 0F1"},
      {{"parallelism={pp: 2, schedule: \"0F0,0F1,0B0\\n1F0,1F1,1B0,1B1\"}",
        "batch.gradient_accumulation_steps=2"},
       "row 1, column 2 (0F1): its backward"},
      {{"parallelism={pp: 2, schedule: \"0F0,0B0\\n1F0,1B0\"}", "batch.gradient_accumulation_steps=2"},
       "parallelism.schedule: the given schedule is a schedule for 1 micro-batches, but "
       "batch.gradient_accumulation_steps is 2; allowed with it: batch.gradient_accumulation_steps = 1"},
      {{"parallelism={pp: 3, schedule: \"0F0,0B0\\n1F0,1B0\"}"},
       "is a schedule for 2 stages, but parallelism.pp is 3; allowed with it: parallelism.pp = 2"},
      {{"parallelism={pp: 2, virtual_stages: 2, schedule: \"0F0,0B0\\n1F0,1B0\"}"},
       "is a schedule for 1 virtual stages on each stage, but parallelism.virtual_stages is 2"},
      {{"parallelism={dp: 2, zero_stage: 1, bucket_size: 1000}"},
       "parallelism.bucket_size = 1000: under parallelism.zero_stage = 1 a layer is reduced whole, and the "
       "largest has 4160 elements on a rank; allowed: at least 4160, auto, or parallelism.zero_stage = 0"},
      {{"parallelism.sp=3"},
       "parallelism.sp = 3: ring cuts a sequence into 6 equal parts, and 6 does not divide data.seq_length = "
       "8; allowed with this job: 1, 2, 4, or a data.seq_length of 12"},
      {{"parallelism.cp=8"}, "parallelism.sp = 8: ring cuts a sequence into 16 equal parts"},
      {{"parallelism={sp: 3, sp_method: allgather}"},
       "parallelism.sp = 3: allgather cuts a sequence into 3 equal parts, and 3 does not divide "
       "data.seq_length = 8; allowed with this job: 1, 2, 4, 8, or a data.seq_length of 9"},
      {{"parallelism={sp: 8, sp_method: ulysses}"},
       "parallelism.sp = 8: ulysses deals heads out, and 8 does not divide the 4 query heads; allowed with "
       "this job: 1, 2, 4"},
      {{"parallelism={sp: 4, tp: 2, sp_method: ulysses}"},
       "ulysses deals heads out, and 4 does not divide the 2 query heads of a tp rank; allowed with this "
       "job: "
       "1, 2"},
      {{"parallelism={sp: 4, sp_method: ulysses}", "model={num_heads: 12, num_kv_heads: 6, head_dim: 2}"},
       "ulysses deals heads out, and 4 neither divides the 6 key heads nor is a multiple of them"},
      {{"parallelism={sp: 2, sp_method: p2p}"}, "parallelism.sp_method = p2p"},
      {{"parallelism={tp: 4, sp: 2, sp_method: allgather, tp_shard_sequence: true}", "data.seq_length=12"},
       "parallelism.tp_shard_sequence = true: parallelism.tp x parallelism.sp = 8 does not divide "
       "data.seq_length = 12; allowed: a data.seq_length of 16, or false"},
      {{"launch.nodes=2", "parallelism.dp=3"},
       "launch.nodes = 2: does not divide pp 1 x dp 3 x sp 1 x tp 1 = 3 ranks"},
      {{"launch.nodes=0"},
       "launch.nodes = 0: not a number of nodes; allowed: a whole number from 1 to 65536, or MIN:MAX"},
      {{"launch.nodes=4:2"}, "launch.nodes = 4:2: more at least than at most; allowed: 2:4"},
      {{"launch.nodes=1:2:3"}, "launch.nodes = 1:2:3: not a number of nodes"},
      {{"launch={nodes: 2, procs_per_node: 2}", "parallelism.dp=2"},
       "but nodes 2 x procs_per_node 2 = 4 ranks; allowed: 4, auto"},
      {{"launch.rdzv_endpoint=host"},
       "launch.rdzv_endpoint = host: allowed: HOST:PORT with a port from 1 to 65535"},
      {{"launch.rdzv_endpoint=host:0"}, "launch.rdzv_endpoint = host:0: allowed"},
      {{"launch.rdzv_id=a b"}, "launch.rdzv_id = \"a b\": allowed"},
      {{"launch.join_timeout_s=0"}, "launch.join_timeout_s = 0: out of range"},
      {{"launch.stop_signals=[]"}, "launch.stop_signals = []: no signal would stop the job in order"},
      {{"launch.stop_signals=[TERM, INT, TERM]"}, "launch.stop_signals: [2] = TERM: named twice"},
      {{"launch.stop_signals=[KILL]"},
       "= KILL: unknown; allowed: a list, each one of TERM, INT, HUP, USR1, USR2"},
      {{"launch.log.max_bytes=100"}, "launch.log.max_bytes = 100: the end of a log"},
      {{"launch.slurm.time=soon"}, "launch.slurm.time = soon: allowed: minutes, H:M:S"},
      {{"launch.slurm.signal=HUP@60"}, "launch.slurm.signal = HUP@60: allowed: one of launch.stop_signals"},
      {{"launch.slurm.partition='a; rm -rf /'"},
       "launch.slurm.partition = \"a; rm -rf /\": it becomes a word of a script"},
      {{"launch.slurm.extra=[mem=0]"}, "launch.slurm.extra = \"mem=0\": allowed: options of sbatch"},
      {{"resilience.on_failure.data=restart_excluding_node"},
       "resilience.on_failure.data = restart_excluding_node: every node has the same data"},
      {{"resilience.on_failure.oom=restart_excluding_node"},
       "resilience.on_failure.oom = restart_excluding_node: launch.nodes is 1"},
      {{"resilience.on_failure.ooom=stop"}, "resilience.on_failure.ooom: unknown key"},
      {{"resilience.on_failure.oom=explode"}, "allowed: one of restart, restart_excluding_node, stop"},
      {{"resilience.hang_factor=0.5"}, "resilience.hang_factor = 0.5: every step would be a hang"},
      {{"faults=[{kind: drop_heartbeats, rank: 1, ms: 1}]"}, "faults[0].rank = 1: the job has 1 nodes"},
      {{"faults=[{kind: drop_heartbeats}]"}, "faults[0].ms: missing; a sleep, jitter or silence"},
      {{"launch.env={1A: x}"}, "launch.env: \"1A\" is no name of an environment variable"},
      {{"model.num_heads=3"},
       "model.num_heads = 3: does not divide model.hidden_size = 16, and no head_dim is given"},
      {{"model.num_kv_heads=3"},
       "model.num_kv_heads = 3: does not divide model.num_heads = 4; allowed: a divisor of 4"},
      {{"model.head_dim=5"},
       "model.head_dim = 5: rotary positions turn pairs of numbers; allowed: an even width"},
      {{"model.family=gpt2", "model.max_position=4"},
       "model.max_position = 4: data.seq_length is 8; allowed: at least 8"},
      {{"model.rope_scaling={type: llama3, low_freq_factor: 4}"},
       "low_freq_factor = 4: allowed: less than high_freq_factor = 4"},
      {{"model.rope_scaling.factor=2"},
       "model.rope_scaling.factor = 2: no scaling without model.rope_scaling.type"},
      {{"model.preset=llama-10t"}, "model.preset = llama-10t: unknown; allowed: llama-10m, llama-1b"},
      {{"data.train=[]"}, "data.train: missing; a run needs at least one source"},
      {{"data.train=[{weight: 2}]"}, "data.train[0].path: missing; allowed: a token file pair"},
      {{"data.valid=[{path: ''}]", "train.eval_interval=5"}, "data.valid[0].path: missing"},
      {{"train.eval_interval=5"},
       "train.eval_interval = 5 steps: nothing to evaluate on; give data.valid or data.valid_fraction"},
      {{"data.valid_fraction=0.6"},
       "data.valid_fraction = 0.6: out of range; allowed: a number from 0 to 0.5"},
      {{"batch.global_batch_size=7"},
       "batch.global_batch_size = 7: not a multiple of batch.micro_batch_size 2 x parallelism.dp 1 = 2; "
       "allowed: 6 or 8"},
      {{"batch.global_batch_size=3", "parallelism.dp=2"},
       "x parallelism.dp 2 = 4; allowed: 4, or another batch.micro_batch_size"},
      {{"batch.global_batch_size=8", "batch.gradient_accumulation_steps=2", "parallelism.dp=4"},
       "batch.global_batch_size = 8: batch.micro_batch_size 2 x parallelism.dp 4 x "
       "batch.gradient_accumulation_steps 2 = 16; allowed: 16 here"},
      {{"batch.micro_batch_size=1000000", "batch.gradient_accumulation_steps=1000000"},
       "allowed: a global batch of at most 1000000000"},
      {{"launch.procs_per_node=4", "parallelism.dp=2"},
       "parallelism.dp = 2: pp 1 x dp 2 x sp 1 x tp 1 = 2, but nodes 1 x procs_per_node 4 = 4 ranks; "
       "allowed: 4, auto"},
      {{"launch.procs_per_node=3", "parallelism.tp=2"},
       "parallelism.dp = auto: nodes 1 x procs_per_node 3 = 3 ranks is not a multiple of pp 1 x sp 1 x tp 2 "
       "= 2"},
      {{"precision.reduce=fp16"},
       "precision.reduce = fp16: sums of gradients overflow its range; allowed: fp32, bf16"},
      {{"precision.reduce=fp64"},
       "precision.reduce = fp64: under precision.compute = fp32 gradients are kept in fp32; allowed: fp32, "
       "bf16"},
      {{"precision={compute: fp64, reduce: fp32}"},
       "precision.reduce = fp32: under precision.compute = fp64 gradients are kept in fp64; allowed: fp64"},
      {{"precision={compute: fp16, loss_scale: {initial: 1000}}"},
       "precision.loss_scale.initial = 1000: a scale that rounds gradients; allowed: a power of two, such as "
       "512 or 1024"},
      {{"precision={compute: fp16, loss_scale: {floor: 0.3}}"},
       "precision.loss_scale.floor = 0.3: a scale that rounds gradients; allowed: a power of two, such as "
       "0.25 or 0.5"},
      {{"precision={compute: fp16, loss_scale: {initial: 4, floor: 8}}"},
       "precision.loss_scale.floor = 8: allowed: at most precision.loss_scale.initial = 4"},
      {{"memory={recompute: full, recompute_layers: 9}"},
       "memory.recompute_layers = 9: more than model.num_layers; allowed: 0 to 2, or auto"},
      {{"memory.recompute=some"}, "memory.recompute = some: unknown; allowed: one of none, selective, full"},
      {{"run.device=cuda"},
       "run.device = cuda: this build has no CUDA engine, or this host no device; allowed: cpu, auto"},
      {{"run.name=a/b"}, "run.name = \"a/b\": names a directory; allowed: 1 to 200 characters without `/`"},
      {{"run.name=.."}, "run.name = \"..\""},
      {{"run.name="}, "run.name = \"\""},
      {{"run.dir="}, "run.dir = \"\": allowed: a path without control"},
      {{"optimizer.betas=[0.9, 1]"},
       "optimizer.betas: [1] = 1: the average would never move; allowed: less than 1"},
      {{"optimizer={name: sgd, momentum: 1}"},
       "optimizer.momentum = 1: the velocity would never decay; allowed: less than 1"},
      {{"train.duration=0"}, "train.duration = 0 steps: allowed: at least 1"},
      {{"train.duration=10%"}, "train.duration = 10%: a share of itself; allowed: steps, tokens or samples"},
      {{"lr_schedule.warmup=101"}, "lr_schedule.warmup = 101 steps: longer than train.duration = 100 steps"},
      {{"lr_schedule.warmup=10K tokens"},
       "lr_schedule.warmup = 10K tokens = 625 steps: longer than train.duration = 100 steps"},
      {{"lr_schedule={style: wsd, warmup: 95, decay: 10%}"},
       "lr_schedule.decay = 10% = 10 steps: with lr_schedule.warmup = 95 steps longer than train.duration"},
      {{"lr_schedule.min_lr_ratio=2"},
       "lr_schedule.min_lr_ratio = 2: out of range; allowed: a number from 0 to 1"},
      {{"faults=[{kind: kill, rank: 1}]"},
       "faults[0].rank = 1: the job has 1 ranks; allowed: 0 to 0, or -1 for all"},
      {{"faults=[{kind: sleep}]"}, "faults[0].ms: missing; a sleep, jitter or silence needs its length"},
      {{"faults=[{kind: jitter}]"}, "faults[0].ms: missing; a sleep, jitter or silence needs its length"},
  };
  for (const Case& refused : cases) {
    const JobReport report = check(kMinimal, refused.overrides);
    INFO(shown(refused.overrides) << "\n" << messages_of(report));
    CHECK_FALSE(report.job);
    CHECK_THAT(messages_of(report), Contains(refused.message));
  }
}

TEST_CASE("validate: what the rules leave is accepted", "[job]") {
  const Overrides cases[] = {
      {},
      {"model.hidden_size=18",
       "model.head_dim=8"},  // hidden need not be heads x head_dim when head_dim is given
      {"model.num_kv_heads=1"},
      {"model.head_dim=5", "model.position=learned"},
      {"model.family=gpt2", "model.max_position=8"},
      {"model.rope_scaling={type: llama3, factor: 8}"},
      {"model={preset: llama-10m}"},
      {"batch.global_batch_size=8", "batch.gradient_accumulation_steps=2", "parallelism.dp=2"},
      {"launch.procs_per_node=4"},
      {"parallelism={sp: 4, dp: 2}", "launch.procs_per_node=8"},
      {"parallelism={sp: 8, sp_method: allgather}"},
      {"parallelism={sp: 4, sp_method: ulysses}", "model.num_kv_heads=2"},
      {"parallelism={sp: 2, tp: 2, tp_shard_sequence: true}"},
      {"launch.procs_per_node=4", "parallelism.dp=4"},
      {"parallelism.pp=4"},  // of two layers: embedding, layer, layer, head
      {"parallelism={pp: 2, schedule: interleaved, stage_layers: [0, 1, 1, 0]}"},
      {"parallelism={pp: 2, schedule: interleaved}", "batch.gradient_accumulation_steps=5"},
      {"parallelism={pp: 2, schedule: zbv, dp: 2, tp: 2, sp: 2, tp_shard_sequence: true, zero_stage: 3}",
       "model.tie_embeddings=true"},
      {"parallelism={pp: 2, schedule: \"0F0,,0B0\\n,1F0,1B0\"}"},
      {"parallelism={dp: 2, bucket_size: 1000}"},
      {"parallelism={dp: 2, zero_stage: 2, bucket_size: 4160}"},
      {"precision.compute=fp64"},
      {"precision.compute=fp16"},
      {"precision={compute: fp16, loss_scale: {initial: 1024, window: 10, hysteresis: 1, floor: 0.5}}"},
      {"precision={compute: bf16, reduce: bf16}", "parallelism.dp=2"},
      {"memory={recompute: full, recompute_layers: 1}"},
      {"memory={recompute: selective, recompute_layers: 0}"},
      {"run.device=cpu"},
      {"launch.nodes=2", "parallelism.dp=2"},
      {"launch={nodes: '2:3', procs_per_node: 2}"},
      {"launch={nodes: 1:2}", "parallelism.dp=2", "resilience.elastic=true"},
      {"launch={rdzv_endpoint: '[fe80::1]:29500', rdzv_id: job-1.x}"},
      {"launch={rdzv_endpoint: node-1.cluster:29500, time_limit: 3600, stop_signals: USR2}",
       "launch.slurm.signal=B:USR2@60"},
      {"launch.stop_signals=[HUP]", "launch.slurm.signal=''"},
      {"launch.log={max_bytes: 1000000, keep: 0, tee: all}"},
      {"launch.slurm={partition: gpu, account: a_b, qos: high, gpus_per_node: 8, cpus_per_task: 16, time: "
       "1-02:03:04, "
       "signal: USR1@300, requeue: false, exclusive: true, constraint: 'a100&ib', container: docker://x/y:1, "
       "chain: dependency, max_chain: 3, exclude: ['n[1-3]', n7], extra: [--mem=0]}"},
      {"launch.nodes=2",
       "parallelism.dp=2",
       "resilience.on_failure={crash: stop, node_lost: restart_excluding_node}"},
      {"resilience={restart_window_s: 3600, hang_factor: 0, startup_timeout_s: 60, straggler_share: 0}"},
      {"faults=[{kind: io, nth: 3, error: EDQUOT}, {kind: exit, code: 3, point: commit_rename}, {kind: oom, "
       "mib: 10}]"},
      {"run.name=on"},
      {"train.eval_interval=5%", "data.valid=[{path: synthetic}]"},
      {"train.eval_interval=5", "data.valid_fraction=0.1"},
      {"train.duration=10K tokens"},
      {"lr_schedule={style: wsd, warmup: 90, decay: 10%}"},
      {"lr_schedule.warmup=100%"},
      {"faults=[{kind: kill, rank: 1, step: 3}]", "parallelism.dp=2"},
      {"run.seed=18446744073709551615"},
      {"run.seed=2147483648"},
  };
  for (const Overrides& overrides : cases) {
    const JobReport report = check(kMinimal, overrides);
    INFO(shown(overrides) << "\n" << messages_of(report));
    CHECK(report.job);
  }
}

TEST_CASE("validate: sharding strategies of FSDP, Megatron and DeepSpeed are stages", "[job]") {
  const std::pair<std::string, int> strategies[] = {{"parallelism.zero_stage=2", 2},
                                                    {"fsdp_config={sharding_strategy: FULL_SHARD}", 3},
                                                    {"fsdp_config={sharding_strategy: SHARD_GRAD_OP}", 2},
                                                    {"data_parallel_sharding_strategy=optim", 1},
                                                    {"zero_optimization={stage: 1}", 1}};
  for (const auto& [setting, stage] : strategies) {
    const JobReport report = check(kMinimal, {"parallelism.dp=2", setting});
    INFO(setting << "\n" << messages_of(report));
    REQUIRE(report.job);
    CHECK(report.job->spec.parallelism.zero_stage == stage);
  }
  CHECK_THAT(messages_of(check(kMinimal, {"parallelism={dp: 2, zero_stage: HYBRID_SHARD}"})),
             Contains("= HYBRID_SHARD: not a whole number; allowed: a whole number from 0 to 3"));
}

TEST_CASE("validate: schedules of torch and nanotron are known by their names", "[job]") {
  const std::pair<std::string, std::string> schedules[] = {
      {"parallelism.schedule=Interleaved1F1B", "interleaved"},
      {"pipeline_parallel_schedule=1F1B", "1f1b"},
      {"pipeline_parallel_schedule=ZBVZeroBubble", "zbv"},
      {"parallelism={pp_engine: afab}", "gpipe"}};
  for (const auto& [setting, schedule] : schedules) {
    const JobReport report = check(kMinimal, {"parallelism.pp=2", "batch.micro_batch_size=1", setting});
    INFO(setting << "\n" << messages_of(report));
    REQUIRE(report.job);
    CHECK(report.job->spec.parallelism.schedule == schedule);
  }
}

TEST_CASE("validate: a field without effect is a warning", "[job]") {
  const Case cases[] = {
      {{"optimizer.momentum=0.9"}, "optimizer.momentum: has no effect under adamw"},
      {{"optimizer={name: sgd, betas: [0.9, 0.9]}"}, "optimizer.betas: has no effect under sgd"},
      {{"optimizer={name: sgd, eps: 1e-6}"}, "optimizer.eps: has no effect under sgd"},
      {{"optimizer={weight_decay: 0, decay_embeddings: true}"}, "optimizer.decay_embeddings: has no effect"},
      {{"optimizer.lr=0"}, "weights will not change"},
      {{"lr_schedule.decay=10%"}, "lr_schedule.decay: has no effect on the style cosine"},
      {{"parallelism.tp_overlap_chunks=4"},
       "parallelism.tp_overlap_chunks: has no effect: parallelism.tp is 1"},
      {{"lr_schedule={style: constant, min_lr_ratio: 0.1}"}, "has no effect on the style constant"},
      {{"model.max_position=99"}, "model.max_position: has no effect"},
      {{"model={family: gpt2, rope_theta: 5}"}, "model.rope_theta: has no effect with learned positions"},
      {{"data.valid=[{path: synthetic}]"}, "data.valid: has no effect on training: train.eval_interval is 0"},
      {{"data.valid=[{path: synthetic}]", "data.valid_fraction=0.1", "train.eval_interval=2"},
       "data.valid_fraction: has no effect"},
      {{"train.eval_steps=3"}, "train.eval_steps: has no effect"},
      {{"monitoring.trace_collectives=false", "resilience.straggler_share=0.1"},
       "resilience.straggler_share: has no effect: monitoring.trace_collectives is false"},
      {{"checkpoint={keep_every: 10, keep_last: 0, interval: 5}"},
       "checkpoint.keep_every: has no effect: checkpoint.keep_last is 0"},
      {{"checkpoint.keep_every=10"}, "checkpoint.keep_every: has no effect: checkpoint.interval is 0"},
      {{"checkpoint={keep_every: 12, interval: 5}"},
       "checkpoint.keep_every = 12 steps: not a multiple of checkpoint.interval = 5 steps"},
      {{"precision.loss_scale={window: 10}"},
       "precision.loss_scale: has no effect: precision.compute is fp32; only fp16 needs a scale"},
      {{"precision.reduce=bf16"}, "precision.reduce: has no effect"},
      {{"memory.recompute_layers=1"}, "memory.recompute_layers: has no effect: memory.recompute is none"},
      {{"memory.offload_optimizer=cpu"}, "memory.offload_optimizer: has no effect: run.device is cpu"},
      {{"faults=[{kind: kill, ms: 5}]"}, "faults[0].ms: has no effect"},
      {{"faults=[{kind: kill, step: 5, each: step}]"}, "faults[0].each: has no effect"},
      {{"data.train=nowhere/at all"},
       "data.train[0].path = nowhere/at all: no such directory, and no nowhere/at all.idx"},
      {{"data.tokenizer=nowhere"}, "data.tokenizer = nowhere: no such file or directory"},
      {{"parallelism={dp: 2, dp_shard: 2}"},
       "parallelism.dp_shard: has no effect: parallelism.zero_stage is 0"},
      {{"parallelism={dp: 2, zero_stage: 1, dp_shard: 1}"},
       "parallelism.zero_stage: has no effect: parallelism.dp_shard is 1"},
      {{"parallelism.zero_stage=1"}, "parallelism.zero_stage: has no effect: parallelism.dp is 1"},
      {{"zero_optimization={stage: 1}", "parallelism.dp=2"},
       "zero_optimization.stage: read as parallelism.zero_stage"},
      {{"parallelism.tp_size=1"}, "parallelism.tp_size: read as parallelism.tp"},
      {{"context_parallel_size=2"}, "context_parallel_size: read as parallelism.sp"},
      {{"parallelism.sp_method=ulysses"}, "parallelism.sp_method: has no effect: parallelism.sp is 1"},
      {{"parallelism.schedule=gpipe"}, "parallelism.schedule: has no effect: parallelism.pp is 1"},
      {{"parallelism.virtual_stages=2"}, "parallelism.virtual_stages: has no effect: parallelism.pp is 1"},
      {{"parallelism.stage_layers=[2]"}, "parallelism.stage_layers: has no effect: parallelism.pp is 1"},
      {{"parallelism.overlap=false"}, "parallelism.overlap: has no effect: parallelism.dp is 1"},
      {{"parallelism.bucket_size=9"}, "parallelism.bucket_size: has no effect: parallelism.dp is 1"},
      {{"parallelism={dp: 2, zero_stage: 2, reshard_after_forward: false}"},
       "parallelism.reshard_after_forward: has no effect: only parallelism.zero_stage 3 gathers weights"},
      {{"parallelism.pp=4", "batch.gradient_accumulation_steps=3"},
       "batch.gradient_accumulation_steps = 3: fewer micro-batches than the 4 stages of the pipeline, which "
       "stand idle for 50 % of a step; 4 or more keep them busier"},
      {{"virtual_pipeline_model_parallel_size=2", "parallelism={pp: 2, schedule: interleaved}"},
       "virtual_pipeline_model_parallel_size: read as parallelism.virtual_stages"},
  };
  for (const Case& warned : cases) {
    const JobReport report = check(kMinimal, warned.overrides);
    INFO(shown(warned.overrides) << "\n" << messages_of(report));
    CHECK(report.job);
    CHECK_THAT(messages_of(report), Contains("warning: ") && Contains(warned.message));
  }
}

TEST_CASE("validate: a minimal job has no warnings", "[job]") {
  CHECK(messages_of(check(kMinimal)).empty());
}

TEST_CASE("validate: what a job must have is named when it is missing", "[job]") {
  const JobReport nothing = check("# nothing\n");
  for (const char* field :
       {"version: missing", "model: missing", "data: missing", "batch: missing", "train.duration: missing"})
    CHECK_THAT(messages_of(nothing), Contains(field));
  CHECK(nothing.diagnostics.size() == 5);
  const std::string empty =
      messages_of(check("version: 1\nmodel: {}\ndata: {}\nbatch: {}\ntrain: {duration: 1}\n"));
  for (const char* field : {"job.yaml:2:8: model.vocab_size: missing",
                            "model.hidden_size: missing",
                            "model.num_layers: missing",
                            "model.num_heads: missing",
                            "job.yaml:3:7: data.train: missing"})
    CHECK_THAT(empty, Contains(field));
  CHECK_THAT(messages_of(check(kMinimal, {"model={num_heads: 0}"})),
             Contains("model.num_heads = 0: out of range"));
}

TEST_CASE("validate: all violations at once, a consequence of another not among them", "[job]") {
  const JobReport report = check(
      "version: 1\n"
      "model: {vocab_size: 32, hidden_size: x, num_layers: 2, num_heads: 4}\n"
      "data: {seq_length: 8, train: 5x}\n"
      "batch: {micro_batch_size: 2, global_batch_size: 5}\n"
      "parallelism: {pp: 5}\n"
      "lr_schedule: {warmup: 200}\n"
      "train: {duration: 100 stepz}\n");
  INFO(messages_of(report));
  std::size_t errors = 0;
  for (const Diagnostic& diagnostic : report.diagnostics)
    errors += diagnostic.level == DiagnosticLevel::kError;
  CHECK(errors == 4);  // hidden_size, pp, global_batch_size, duration; neither head_dim nor warmup
  CHECK_THAT(messages_of(report), Contains("job.yaml:2:38: model.hidden_size = x"));
  CHECK_THAT(messages_of(report), Contains("job.yaml:7:19: train.duration: `100 stepz` has an unknown unit"));
}

TEST_CASE("validate: missing data is ignored, warned about or refused", "[job]") {
  JobSource source;
  const std::vector<std::string> missing = {"data.train=nowhere"};
  source.missing_data = MissingData::kIgnore;
  CHECK(messages_of(check(kMinimal, missing, source)).empty());
  source.missing_data = MissingData::kRefuse;
  CHECK_FALSE(check(kMinimal, missing, source).job);
  const test::ScratchDir scratch;
  scratch.write("web.idx", "");
  scratch.write("web.bin", "");
  CHECK(messages_of(check(kMinimal, {"data.train='" + (scratch.path() / "web").string() + "'"}, source))
            .empty());
  CHECK(messages_of(check(kMinimal, {"data.train='" + scratch.path().string() + "'"}, source)).empty());
  std::filesystem::remove(scratch.path() / "web.bin");
  CHECK_FALSE(check(kMinimal, {"data.train='" + (scratch.path() / "web").string() + "'"}, source).job);
}

TEST_CASE("validate: tensor parallel ranks overlap in chunks where something runs beside them", "[job]") {
  JobSource source;
  source.cuda_available = true;
  const auto chunks = [&](const Overrides& overrides) {
    const JobReport report = check(kMinimal, overrides, source);
    INFO(shown(overrides) << "\n" << messages_of(report));
    REQUIRE(report.job);
    return report.job->spec.parallelism.tp_overlap_chunks.value();
  };
  CHECK(chunks({"run.device=cuda", "parallelism.tp=2"}) == 4);
  CHECK(chunks({"run.device=cuda"}) == 1);
  CHECK(chunks({"run.device=cpu", "parallelism.tp=2"}) == 1);
  CHECK(chunks({"run.device=cpu", "parallelism={tp: 2, tp_overlap_chunks: 3}"}) == 3);
}

TEST_CASE("validate: cuda is accepted where it is available", "[job]") {
  JobSource source;
  source.cuda_available = true;
  CHECK(check(kMinimal, {"run.device=cuda"}, source).job->spec.run.device == Device::kCuda);
  CHECK(check(kMinimal, {}, source).job->spec.run.device == Device::kCuda);
  CHECK(check(kMinimal).job->spec.run.device == Device::kCpu);
}
