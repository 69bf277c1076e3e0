#include <array>

#include "llmtrain/spec/aliases.hpp"

namespace llmtrain {
namespace {

// From Megatron-LM, DeepSpeed, torchtitan, nanotron, llm-foundry and Hugging Face configs. Only names whose
// value means the same here; a flag with the opposite sense, say, is no alias.
constexpr std::array kAliases = {
    // whole sections
    Alias{"training", "train"},
    Alias{"schedule", "lr_schedule"},
    Alias{"scheduler", "lr_schedule"},
    Alias{"lr_scheduler", "lr_schedule"},
    Alias{"checkpoints", "checkpoint"},
    Alias{"parallel", "parallelism"},
    Alias{"tokens", "batch"},
    Alias{"general", "run"},

    // run
    Alias{"general.run", "run.name"},
    Alias{"run_name", "run.name"},
    Alias{"output_dir", "run.dir"},
    Alias{"training.seed", "run.seed"},

    // model: Hugging Face and Megatron
    Alias{"model_type", "model.family"},
    Alias{"n_embd", "model.hidden_size"},
    Alias{"d_model", "model.hidden_size"},
    Alias{"num_hidden_layers", "model.num_layers"},
    Alias{"n_layer", "model.num_layers"},
    Alias{"n_layers", "model.num_layers"},
    Alias{"num_attention_heads", "model.num_heads"},
    Alias{"n_head", "model.num_heads"},
    Alias{"n_heads", "model.num_heads"},
    Alias{"num_query_groups", "model.num_kv_heads"},
    Alias{"num_key_value_heads", "model.num_kv_heads"},
    Alias{"n_kv_heads", "model.num_kv_heads"},
    Alias{"kv_channels", "model.head_dim"},
    Alias{"intermediate_size", "model.ffn_hidden_size"},
    Alias{"n_inner", "model.ffn_hidden_size"},
    Alias{"max_position_embeddings", "model.max_position"},
    Alias{"n_positions", "model.max_position"},
    Alias{"rms_norm_eps", "model.norm_eps"},
    Alias{"layer_norm_epsilon", "model.norm_eps"},
    Alias{"layer_norm_eps", "model.norm_eps"},
    Alias{"norm_epsilon", "model.norm_eps"},
    Alias{"rotary_base", "model.rope_theta"},
    Alias{"tie_word_embeddings", "model.tie_embeddings"},
    Alias{"initializer_range", "model.init_std"},
    Alias{"init_method_std", "model.init_std"},
    Alias{"model.rope_scaling.rope_type", "model.rope_scaling.type"},
    Alias{"model.rope_scaling.original_max_position_embeddings", "model.rope_scaling.original_max_position"},

    // data
    Alias{"sequence_length", "data.seq_length"},
    Alias{"seq_len", "data.seq_length"},
    Alias{"max_seq_len", "data.seq_length"},
    Alias{"max_target_length", "data.seq_length"},
    Alias{"block_size", "data.seq_length"},
    Alias{"training.seq_len", "data.seq_length"},
    Alias{"tokens.sequence_length", "data.seq_length"},
    Alias{"tokenizer.path", "data.tokenizer"},

    // parallelism
    Alias{"parallelism.tensor", "parallelism.tp"},
    Alias{"tp_size", "parallelism.tp"},
    Alias{"tensor_model_parallel_size", "parallelism.tp"},
    Alias{"tensor_parallel_size", "parallelism.tp"},
    Alias{"tensor_parallel_degree", "parallelism.tp"},
    Alias{"model_parallel_size", "parallelism.tp"},
    Alias{"parallelism.pipeline", "parallelism.pp"},
    Alias{"pp_size", "parallelism.pp"},
    Alias{"pipeline_model_parallel_size", "parallelism.pp"},
    Alias{"pipeline_parallel_size", "parallelism.pp"},
    Alias{"pipeline_parallel_degree", "parallelism.pp"},
    Alias{"pipe_parallel_size", "parallelism.pp"},
    Alias{"parallelism.data", "parallelism.dp"},
    Alias{"dp_size", "parallelism.dp"},
    Alias{"data_parallel_size", "parallelism.dp"},
    Alias{"data_parallel_degree", "parallelism.dp"},
    Alias{"data_parallel_replicate_degree", "parallelism.dp"},
    Alias{"parallelism.context", "parallelism.sp"},
    Alias{"cp", "parallelism.sp"},
    Alias{"cp_size", "parallelism.sp"},
    Alias{"context_parallel_size", "parallelism.sp"},
    Alias{"context_parallel_degree", "parallelism.sp"},
    Alias{"sequence_parallel_size", "parallelism.sp"},
    Alias{"sequence_parallel", "parallelism.sp"},  // as a flag it is refused with an explanation
    Alias{"zero_optimization.stage", "parallelism.zero_stage"},
    Alias{"optimizer.zero_stage", "parallelism.zero_stage"},
    Alias{"fsdp_config.sharding_strategy", "parallelism.zero_stage"},
    Alias{"mics_shard_size", "parallelism.dp_shard"},
    Alias{"data_parallel_shard_degree", "parallelism.dp_shard"},
    Alias{"data_parallel_sharding_strategy", "parallelism.zero_stage"},
    Alias{"overlap_grad_reduce", "parallelism.overlap"},
    Alias{"zero_optimization.overlap_comm", "parallelism.overlap"},
    Alias{"ddp_bucket_size", "parallelism.bucket_size"},
    Alias{"zero_optimization.reduce_bucket_size", "parallelism.bucket_size"},
    Alias{"pipeline_parallel_schedule", "parallelism.schedule"},
    Alias{"pipeline_parallel_schedule_csv", "parallelism.schedule"},
    Alias{"parallelism.pp_engine", "parallelism.schedule"},
    Alias{"num_virtual_stages_per_pipeline_rank", "parallelism.virtual_stages"},
    Alias{"virtual_pipeline_model_parallel_size", "parallelism.virtual_stages"},

    // batch
    Alias{"train_micro_batch_size_per_gpu", "batch.micro_batch_size"},
    Alias{"device_train_microbatch_size", "batch.micro_batch_size"},
    Alias{"per_device_train_batch_size", "batch.micro_batch_size"},
    Alias{"local_batch_size", "batch.micro_batch_size"},
    Alias{"training.local_batch_size", "batch.micro_batch_size"},
    Alias{"training.micro_batch_size", "batch.micro_batch_size"},
    Alias{"train_batch_size", "batch.global_batch_size"},
    Alias{"global_train_batch_size", "batch.global_batch_size"},
    Alias{"training.global_batch_size", "batch.global_batch_size"},
    Alias{"batch_accumulation_per_replica", "batch.gradient_accumulation_steps"},
    Alias{"training.gradient_accumulation_steps", "batch.gradient_accumulation_steps"},

    // precision
    Alias{"precision.grad_reduce", "precision.reduce"},
    Alias{"mixed_precision_param", "precision.compute"},
    Alias{"mixed_precision_reduce", "precision.reduce"},
    Alias{"grad_reduce_dtype", "precision.reduce"},
    Alias{"initial_loss_scale", "precision.loss_scale.initial"},
    Alias{"loss_scale_window", "precision.loss_scale.window"},
    Alias{"fp16.loss_scale_window", "precision.loss_scale.window"},
    Alias{"hysteresis", "precision.loss_scale.hysteresis"},
    Alias{"fp16.hysteresis", "precision.loss_scale.hysteresis"},
    Alias{"min_loss_scale", "precision.loss_scale.floor"},
    Alias{"fp16.min_loss_scale", "precision.loss_scale.floor"},

    // memory
    Alias{"recompute_granularity", "memory.recompute"},
    Alias{"activation_checkpoint.mode", "memory.recompute"},
    Alias{"recompute_num_layers", "memory.recompute_layers"},

    // optimizer
    Alias{"optimizer.type", "optimizer.name"},
    Alias{"learning_rate", "optimizer.lr"},
    Alias{"gradient_clipping", "optimizer.clip_grad"},
    Alias{"max_norm", "optimizer.clip_grad"},
    Alias{"max_grad_norm", "optimizer.clip_grad"},
    Alias{"training.max_norm", "optimizer.clip_grad"},

    // learning-rate schedule
    Alias{"lr_decay_style", "lr_schedule.style"},
    Alias{"lr_scheduler_type", "lr_schedule.style"},
    Alias{"decay_type", "lr_schedule.style"},
    Alias{"lr_warmup_iters", "lr_schedule.warmup"},
    Alias{"warmup_steps", "lr_schedule.warmup"},
    Alias{"lr_warmup_steps", "lr_schedule.warmup"},
    Alias{"min_lr_factor", "lr_schedule.min_lr_ratio"},

    // length and intervals
    Alias{"train_iters", "train.duration"},
    Alias{"train_steps", "train.duration"},
    Alias{"tokens.train_steps", "train.duration"},
    Alias{"max_steps", "train.duration"},
    Alias{"max_duration", "train.duration"},
    Alias{"training.steps", "train.duration"},
    Alias{"eval_iters", "train.eval_steps"},
    Alias{"logging_steps", "train.log_interval"},
    Alias{"steps_per_print", "train.log_interval"},
    Alias{"save_interval", "checkpoint.interval"},
    Alias{"checkpoint_interval", "checkpoint.interval"},
    Alias{"save_steps", "checkpoint.interval"},
    Alias{"keep_latest_k", "checkpoint.keep_last"},
    Alias{"save_total_limit", "checkpoint.keep_last"},

    // launch
    Alias{"nnodes", "launch.nodes"},
    Alias{"num_nodes", "launch.nodes"},
    Alias{"nproc_per_node", "launch.procs_per_node"},
    Alias{"gpus_per_node", "launch.procs_per_node"},
};

}  // namespace

std::span<const Alias> aliases() {
  return kAliases;
}

}  // namespace llmtrain
