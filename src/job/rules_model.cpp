#include <fmt/format.h>

#include "rules.hpp"

namespace llmtrain {
namespace {

void check_sizes(Rules& rules) {
  const ModelSpec& m = rules.spec.model;
  const std::pair<const char*, std::int64_t> sizes[] = {{"model.vocab_size", m.vocab_size},
                                                        {"model.hidden_size", m.hidden_size},
                                                        {"model.num_layers", m.num_layers},
                                                        {"model.num_heads", m.num_heads}};
  for (const auto& [path, size] : sizes)
    if (size == 0 && rules.usable({path, "model.preset"}))
      rules.error(path, "missing; give it, or a model.preset that has it");
}

void check_heads(Rules& rules) {
  const ModelSpec& m = rules.spec.model;
  const std::int64_t kv_heads = m.num_kv_heads.value_or(m.num_heads);
  if (m.num_heads > 0 && kv_heads > 0 && m.num_heads % kv_heads != 0 &&
      rules.usable({"model.num_heads", "model.num_kv_heads"}))
    rules.error("model.num_kv_heads",
                fmt::format("= {}: does not divide model.num_heads = {}; allowed: a divisor of {}",
                            kv_heads,
                            m.num_heads,
                            m.num_heads));
  const std::int64_t head_dim = m.head_dim.value_or(0);
  if (m.position == PositionKind::kRope && head_dim % 2 != 0 && m.num_heads > 0 &&
      rules.usable({"model.head_dim", "model.num_heads", "model.hidden_size", "model.position"}))
    rules.error(
        "model.head_dim",
        fmt::format("= {}: rotary positions turn pairs of numbers; allowed: an even width", head_dim));
}

void check_positions(Rules& rules) {
  const ModelSpec& m = rules.spec.model;
  const std::int64_t seq_length = rules.spec.data.seq_length;
  const bool learned = m.position == PositionKind::kLearned;
  if (m.max_position && *m.max_position < seq_length &&
      rules.usable({"model.max_position", "data.seq_length"})) {
    const std::string message = fmt::format("= {}: data.seq_length is {}", *m.max_position, seq_length);
    if (learned)
      rules.error("model.max_position", message + fmt::format("; allowed: at least {}", seq_length));
  }
  if (!learned && rules.given("model.max_position"))
    rules.warning("model.max_position", "has no effect: rotary positions have no table");
  if (learned && rules.given("model.rope_scaling"))
    rules.warning("model.rope_scaling", "has no effect with learned positions");
  if (learned && rules.given("model.rope_theta"))
    rules.warning("model.rope_theta", "has no effect with learned positions");

  const RopeScalingSpec& scaling = m.rope_scaling;
  if (scaling.type == RopeScalingKind::kLlama3 && scaling.low_freq_factor >= scaling.high_freq_factor &&
      rules.usable({"model.rope_scaling"}))
    rules.error("model.rope_scaling.low_freq_factor",
                fmt::format("= {}: allowed: less than high_freq_factor = {}",
                            scaling.low_freq_factor,
                            scaling.high_freq_factor));
  if (scaling.type == RopeScalingKind::kNone && scaling.factor != 1 && rules.usable({"model.rope_scaling"}))
    rules.error(
        "model.rope_scaling.factor",
        fmt::format("= {}: no scaling without model.rope_scaling.type; allowed: type linear or llama3",
                    scaling.factor));
}

}  // namespace

void check_model(Rules& rules) {
  check_sizes(rules);
  check_heads(rules);
  check_positions(rules);
}

}  // namespace llmtrain
