#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/job/inference_request.hpp"
#include "llmtrain/train/compute_setup.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/eval_stream.hpp"
#include "llmtrain/train/inference.hpp"
#include "llmtrain/train/inference_fence.hpp"
#include "llmtrain/train/loaded_model.hpp"

namespace llmtrain {
namespace {

// Rows that are scored at once: enough work for the matrix products, bounded memory.
constexpr std::int64_t kTokensAtOnce = 4096;

LossSums score(LoadedModel& loaded, EvalStream& stream) {
  const std::int64_t rows = std::max<std::int64_t>(1, kTokensAtOnce / loaded.spec.data.seq_length);
  LossSums sums;
  while (true) {
    const MicroBatch batch = stream.next(rows);
    if (batch.tokens.size(0) == 0) return sums;
    sums += loaded.model->evaluate(batch);
  }
}

void print_score(const EvalRequest& request,
                 const LoadedModel& loaded,
                 const LossSums& sums,
                 std::int64_t bytes) {
  const double loss = sums.loss / static_cast<double>(sums.tokens);
  const double bits = sums.loss / std::numbers::ln2;
  if (request.json) {
    nlohmann::json result = {{"step", loaded.state.step},
                             {"tokens", sums.tokens},
                             {"loss", loss},
                             {"perplexity", std::exp(loss)},
                             {"bytes", bytes},
                             {"bits_per_byte", nullptr}};
    if (bytes > 0) result["bits_per_byte"] = bits / static_cast<double>(bytes);
    fmt::print("{}\n", result.dump());
    return;
  }
  fmt::print("checkpoint     step {} ({})\n", loaded.state.step, request.step_dir);
  fmt::print("data           {} ({} tokens scored)\n", request.data, sums.tokens);
  fmt::print("loss           {:.4f} nats per token\n", loss);
  fmt::print("perplexity     {:.2f}\n", std::exp(loss));
  if (bytes > 0)
    fmt::print("bits per byte  {:.4f} ({} bytes)\n", bits / static_cast<double>(bytes), bytes);
  else
    fmt::print("bits per byte  unknown: no tokenizer tells the bytes of a token\n");
}

void evaluate(const EvalRequest& request) {
  set_compute_threads(request.threads > 0 ? request.threads : usable_cores());
  LoadedModel loaded = load_model(request.step_dir);
  EvalStream stream = EvalStream::open(loaded, request);
  const LossSums sums = score(loaded, stream);
  if (sums.tokens == 0)
    throw ErrorException({ErrorCode::kData,
                          fmt::format("{} holds fewer than two tokens: nothing to score", request.data),
                          {}});
  print_score(request, loaded, sums, stream.bytes());
}

}  // namespace

int run_eval(const std::string& request_json) {
  return fenced("eval", [&] { evaluate(value_or_throw(eval_request_from_json(request_json))); });
}

}  // namespace llmtrain
