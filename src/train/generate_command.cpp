#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/job/inference_request.hpp"
#include "llmtrain/model/kv_cache.hpp"
#include "llmtrain/train/compute_setup.hpp"
#include "llmtrain/train/error.hpp"
#include "llmtrain/train/inference.hpp"
#include "llmtrain/train/inference_fence.hpp"
#include "llmtrain/train/loaded_model.hpp"
#include "llmtrain/train/sampling.hpp"

namespace llmtrain {
namespace {

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<std::int32_t> ids = value_or_throw(tokenizer.encode(prompt, SpecialText::kToken));
  if (ids.empty() && tokenizer.eod_id()) ids.push_back(*tokenizer.eod_id());  // what a document follows
  if (ids.empty())
    throw ErrorException({ErrorCode::kUsage,
                          "--prompt is empty and the tokenizer has no end-of-document token",
                          "give at least one character"});
  return ids;
}

// Feeds tokens through the cache; when it is full, the newer half of the context starts a new one.
class Context {
 public:
  Context(Transformer& model, std::int64_t window)
      : model_(model), window_(window), cache_(model.make_cache(1, window)) {}

  // Logits that follow `ids`, which come after everything given before.
  at::Tensor extend(std::span<const std::int32_t> ids) {
    seen_.insert(seen_.end(), ids.begin(), ids.end());
    if (cache_.length() + static_cast<std::int64_t>(ids.size()) <= window_) return last_logits(ids);
    cache_.truncate();
    const std::size_t kept =
        std::min(seen_.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, window_ / 2)));
    return last_logits(std::span(seen_).last(kept));
  }

 private:
  at::Tensor last_logits(std::span<const std::int32_t> ids) {
    const at::Tensor tokens =
        at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()), at::kLong).unsqueeze(0);    // [1, n]
    return model_.logits(tokens, cache_).select(1, -1).select(0, 0).to(at::kFloat).contiguous();  // [vocab]
  }

  Transformer& model_;
  std::int64_t window_;
  KvCache cache_;
  std::vector<std::int32_t> seen_;
};

void print_text(const std::string& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

void generate(const GenerateRequest& request) {
  set_compute_threads(request.threads > 0 ? request.threads : usable_cores());
  LoadedModel loaded = load_model(request.step_dir);
  const auto tokenizer = tokenizer_for(loaded, request.step_dir, request.tokenizer);
  const SamplingOptions sampling{.temperature = request.temperature,
                                 .top_k = request.top_k,
                                 .top_p = request.top_p,
                                 .seed = request.seed};
  Context context(*loaded.model, loaded.spec.data.seq_length);
  std::vector<std::int32_t> next = encode_prompt(*tokenizer, request.prompt);
  std::vector<std::int32_t> added;
  if (!request.json) print_text(request.prompt);
  while (static_cast<std::int64_t>(added.size()) < request.max_tokens) {
    const at::Tensor logits = context.extend(next);  // [vocab]
    const std::int32_t id =
        sample_token({logits.const_data_ptr<float>(), static_cast<std::size_t>(logits.numel())},
                     sampling,
                     static_cast<std::int64_t>(added.size()));
    if (id == tokenizer->eod_id()) break;
    added.push_back(id);
    next = {id};
    if (!request.json) print_text(value_or_throw(tokenizer->decode(next)));
  }
  if (!request.json) return print_text("\n");
  const nlohmann::json result = {{"step", loaded.state.step},
                                 {"prompt", request.prompt},
                                 {"text", value_or_throw(tokenizer->decode(added))},
                                 {"tokens", added}};
  print_text(result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

int run_generate(const std::string& request_json) {
  return fenced("generate", [&] { generate(value_or_throw(generate_request_from_json(request_json))); });
}

}  // namespace llmtrain
