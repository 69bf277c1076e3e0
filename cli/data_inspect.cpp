#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/data/indexed_dataset.hpp"
#include "llmtrain/data/prepare.hpp"
#include "llmtrain/data/token_statistics.hpp"
#include "llmtrain/data/tokenizer.hpp"

#include "data_commands.hpp"
#include "job_arguments.hpp"

// `llmtrain data inspect PATH`: what a pair of token files holds, after checking every border in it.
namespace llmtrain::cli {
namespace {

using nlohmann::ordered_json;

struct InspectArguments {
  std::string path;
  std::string tokenizer;
  std::optional<std::int64_t> document;
  bool all = false;
  bool json = false;
};

// Tokens that are read for the statistics unless --all is given.
constexpr std::int64_t kSampleTokens = 64 << 20;

struct Summary {
  std::vector<std::int64_t> buckets;  // documents of [2^(i-1), 2^i) tokens; bucket 0: empty ones
  std::int64_t shortest = 0;
  std::int64_t longest = 0;
  TokenStatistics statistics;
  std::optional<std::int64_t> num_eod;        // with a tokenizer: ends of documents among the tokens read
  std::optional<std::int64_t> decoded_bytes;  // with a tokenizer
};

void count_lengths(const IndexedDataset& set, Summary& summary) {
  summary.shortest = set.num_tokens();
  for (std::int64_t d = 0; d < set.num_documents(); ++d) {
    const std::int64_t length = set.document_begin(d + 1) - set.document_begin(d);
    const auto bucket = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(length)));
    if (bucket >= summary.buckets.size()) summary.buckets.resize(bucket + 1);
    ++summary.buckets[bucket];
    summary.shortest = std::min(summary.shortest, length);
    summary.longest = std::max(summary.longest, length);
  }
}

Status count_tokens(const IndexedDataset& set, const Tokenizer* tokenizer, bool all, Summary& summary) {
  const std::int64_t end = all ? set.num_tokens() : std::min(set.num_tokens(), kSampleTokens);
  const auto eod = tokenizer != nullptr ? tokenizer->eod_id() : std::nullopt;
  if (eod) summary.num_eod = 0;
  std::vector<std::int32_t> ids;
  for (std::int64_t at = 0; at < end; at += std::ssize(ids)) {
    ids.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 16, end - at)));
    LLMTRAIN_TRY(set.read(at, ids));
    const std::int64_t vocab_size = tokenizer != nullptr ? tokenizer->vocab_size() : INT64_MAX;
    const auto bad =
        std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= vocab_size; });
    if (bad != ids.end()) {
      return Error{ErrorCode::kData,
                   fmt::format("{}: token {} has id {}, which is outside the vocabulary",
                               set.paths().bin(),
                               at + (bad - ids.begin()),
                               *bad),
                   "the file is damaged, or was made with another tokenizer"};
    }
    summary.statistics.add(ids);
    if (eod) *summary.num_eod += std::count(ids.begin(), ids.end(), *eod);
  }
  if (tokenizer != nullptr) summary.decoded_bytes = summary.statistics.decoded_bytes(*tokenizer);
  return ok_status();
}

ordered_json as_json(const IndexedDataset& set, const Summary& summary) {
  const TokenStatistics& statistics = summary.statistics;
  ordered_json root = {{"prefix", set.paths().prefix},
                       {"type", to_string(set.type())},
                       {"documents", set.num_documents()},
                       {"sequences", set.num_sequences()},
                       {"tokens", set.num_tokens()},
                       {"fingerprint", fmt::format("{:016x}", set.fingerprint())},
                       {"document_tokens",
                        {{"min", summary.shortest},
                         {"max", summary.longest},
                         {"mean",
                          static_cast<double>(set.num_tokens()) /
                              static_cast<double>(std::max<std::int64_t>(1, set.num_documents()))}}},
                       {"histogram", ordered_json::array()},
                       {"tokens_read", statistics.num_tokens()},
                       {"largest_id", statistics.largest_id()},
                       {"distinct_ids", statistics.num_distinct()},
                       {"unigram_bits_per_token", statistics.bits_per_token()}};
  for (std::size_t i = 0; i < summary.buckets.size(); ++i) {
    const std::int64_t least = i == 0 ? 0 : std::int64_t{1} << (i - 1);
    if (summary.buckets[i] > 0)
      root["histogram"].push_back({{"from", least}, {"documents", summary.buckets[i]}});
  }
  if (summary.num_eod) root["eod_tokens"] = *summary.num_eod;
  if (summary.decoded_bytes) root["text_bytes"] = *summary.decoded_bytes;
  return root;
}

void print_text(const IndexedDataset& set, const Summary& summary) {
  const TokenStatistics& statistics = summary.statistics;
  fmt::print("{}: {} documents, {} tokens of {}, {} sequences{}\n",
             set.paths().prefix,
             set.num_documents(),
             set.num_tokens(),
             to_string(set.type()),
             set.num_sequences(),
             set.has_modes() ? ", multimodal" : "");
  fmt::print("documents of {} to {} tokens\n", summary.shortest, summary.longest);
  const std::int64_t most =
      summary.buckets.empty() ? 1 : *std::max_element(summary.buckets.begin(), summary.buckets.end());
  for (std::size_t i = 0; i < summary.buckets.size(); ++i) {
    if (summary.buckets[i] == 0) continue;
    const std::int64_t least = i == 0 ? 0 : std::int64_t{1} << (i - 1);
    const auto bar = static_cast<std::size_t>(
        std::max<std::int64_t>(1, 40 * summary.buckets[i] / std::max<std::int64_t>(1, most)));
    fmt::print("  {:>12} or more: {:>12} {}\n", least, summary.buckets[i], std::string(bar, '#'));
  }
  fmt::print("ids up to {}, {} distinct, unigram entropy {:.4f} bits a token",
             statistics.largest_id(),
             statistics.num_distinct(),
             statistics.bits_per_token());
  if (summary.decoded_bytes) fmt::print(", {} bytes of text", *summary.decoded_bytes);
  if (summary.num_eod) fmt::print(", {} ends of documents", *summary.num_eod);
  if (statistics.num_tokens() < set.num_tokens())
    fmt::print(" (of the first {} tokens; --all reads all)", statistics.num_tokens());
  fmt::print("\nfingerprint {:016x}; all borders are in order\n", set.fingerprint());
}

Status print_document(const IndexedDataset& set,
                      std::int64_t document,
                      const Tokenizer* tokenizer,
                      bool json) {
  if (document < 0 || document >= set.num_documents()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("--document {}: {} holds documents 0 to {}",
                             document,
                             set.paths().prefix,
                             set.num_documents() - 1),
                 "choose one of them"};
  }
  const std::int64_t begin = set.document_begin(document);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(set.document_begin(document + 1) - begin));
  LLMTRAIN_TRY(set.read(begin, ids));
  std::string text;
  if (tokenizer != nullptr) {
    LLMTRAIN_ASSIGN(decoded, tokenizer->decode(ids, true));
    text = std::move(decoded);
  }
  if (json) {
    ordered_json root = {{"document", document}, {"first_token", begin}, {"ids", ids}};
    if (tokenizer != nullptr) root["text"] = text;
    fmt::print("{}\n", root.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  } else if (tokenizer != nullptr) {
    fmt::print("{}\n", text);
  } else {
    fmt::print("{}\n", fmt::join(ids, " "));
  }
  return ok_status();
}

Status inspect(const InspectArguments& options) {
  LLMTRAIN_ASSIGN(set, IndexedDataset::open(expand_home(options.path), IndexCheck::kFull));
  std::shared_ptr<const Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    LLMTRAIN_ASSIGN(loaded, load_tokenizer(expand_home(options.tokenizer)));
    tokenizer = std::move(loaded);
  }
  if (options.document) return print_document(set, *options.document, tokenizer.get(), options.json);
  Summary summary;
  count_lengths(set, summary);
  LLMTRAIN_TRY(count_tokens(set, tokenizer.get(), options.all, summary));
  if (options.json) {
    fmt::print("{}\n", as_json(set, summary).dump(2, ' ', false, ordered_json::error_handler_t::replace));
  } else {
    print_text(set, summary);
  }
  return ok_status();
}

int run_inspect(const InspectArguments& options) {
  const Status status = inspect(options);
  return status ? to_int(ExitCode::kDone) : report_error("data inspect", status.error());
}

}  // namespace

void add_data_inspect(CLI::App& data, Runner& run) {
  auto options = std::make_shared<InspectArguments>();
  auto* const command = data.add_subcommand("inspect", "Check a pair of token files and say what it holds");
  command->add_option("path", options->path, "Prefix, .idx or .bin file, or a directory with one pair")
      ->required();
  command->add_option(
      "--tokenizer", options->tokenizer, "Decode with this tokenizer, and check every id against it");
  command->add_option("--document", options->document, "Print the tokens of this document, from 0");
  command->add_flag("--all", options->all, "Read every token, not the first 64 Mi only");
  command->add_flag("--json", options->json, "Print as JSON");
  command->callback([options, &run] { run = [options] { return run_inspect(*options); }; });
}

}  // namespace llmtrain::cli
