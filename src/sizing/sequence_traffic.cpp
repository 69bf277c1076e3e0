#include "llmtrain/sizing/sequence_traffic.hpp"

#include <algorithm>

#include "llmtrain/core/division.hpp"

namespace llmtrain {
namespace {

// Of one block, on one rank.
struct Widths {
  std::int64_t block = 0;      // keys and values of the own tokens, in the compute type
  std::int64_t gradients = 0;  // the same in the type of main gradients
  std::int64_t exchanged = 0;  // ulysses: queries, keys and values that change over
  std::int64_t output = 0;     // ulysses: outputs that change back
};

Widths widths(const ModelSpec& model, const SequencePass& pass) {
  const auto bytes = static_cast<std::int64_t>(bytes_of(pass.compute));
  const std::int64_t main_bytes = pass.compute == DType::kFp64 ? 8 : 4;
  const std::int64_t d = *model.head_dim;
  const std::int64_t heads = exact_div(model.num_heads, pass.tp);
  const std::int64_t kv_heads = std::max<std::int64_t>(1, *model.num_kv_heads / pass.tp);
  const std::int64_t kv_elements = 2 * kv_heads * d * pass.tokens;
  // A rank needs a key/value head at least, also where ranks share them.
  const std::int64_t sent_kv_heads = std::max<std::int64_t>(kv_heads, pass.sp);
  return {.block = kv_elements * bytes,
          .gradients = kv_elements * main_bytes,
          .exchanged = (heads + 2 * sent_kv_heads) * d * pass.tokens * bytes,
          .output = heads * d * pass.tokens * bytes};
}

Traffic times(std::int64_t n, std::int64_t bytes) {
  return {.calls = n, .bytes = n * bytes};
}

void add(Traffic& to, const Traffic& more) {
  to.calls += more.calls;
  to.bytes += more.bytes;
}

SequenceTraffic of_blocks(const ModelSpec& model, const SequencePass& pass, bool backward) {
  SequenceTraffic traffic;
  if (pass.sp == 1) return traffic;
  const Widths w = widths(model, pass);
  const std::int64_t layers = model.num_layers;
  const std::int64_t passes = layers + (backward ? layers + pass.recomputed : 0);
  switch (pass.method) {
    case SequenceMethod::kRing:
      traffic.send_recv = times(passes * (pass.sp - 1), w.block);
      if (backward) add(traffic.send_recv, times(layers * pass.sp, w.gradients));
      break;
    case SequenceMethod::kAllGather:
      traffic.all_gather = times(passes, w.block);
      if (backward) traffic.reduce_scatter = times(layers, w.gradients * pass.sp);
      break;
    case SequenceMethod::kUlysses:
      traffic.all_to_all = times(passes, w.exchanged);
      add(traffic.all_to_all, times(passes, w.output));
      break;
  }
  return traffic;
}

}  // namespace

SequenceTraffic& SequenceTraffic::operator+=(const SequenceTraffic& other) {
  add(send_recv, other.send_recv);
  add(all_gather, other.all_gather);
  add(reduce_scatter, other.reduce_scatter);
  add(all_to_all, other.all_to_all);
  return *this;
}

SequenceTraffic training_traffic(const ModelSpec& model, const SequencePass& pass) {
  return of_blocks(model, pass, true);
}

SequenceTraffic forward_traffic(const ModelSpec& model, const SequencePass& pass) {
  return of_blocks(model, pass, false);
}

}  // namespace llmtrain
