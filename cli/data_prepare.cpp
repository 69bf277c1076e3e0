#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/data/prepare.hpp"

#include "data_commands.hpp"
#include "job_arguments.hpp"
#include "progress_line.hpp"

// `llmtrain data prepare INPUT... --tokenizer T --out DIR`: text to token files.
namespace llmtrain::cli {
namespace {

using nlohmann::ordered_json;

struct PrepareArguments {
  PrepareOptions prepare;
  std::string tokenizer;
  std::string eod_token;
  int threads = 0;
  bool json = false;
};

Result<std::int32_t> eod_of(const Tokenizer& tokenizer, const std::string& wanted) {
  const auto id = wanted.empty() ? tokenizer.eod_id() : tokenizer.id_of(wanted);
  if (id) return *id;
  if (!wanted.empty()) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: has no added token `{}`", tokenizer.name(), wanted),
                 "name one of its added tokens"};
  }
  return Error{ErrorCode::kUsage,
               fmt::format("{}: no token is known to end a document", tokenizer.name()),
               "name it with --eod-token"};
}

void print_notes(const TextCounts& texts, const TextRules& rules) {
  const auto note = [](std::int64_t count, const char* text) {
    if (count > 0) fmt::print(stderr, "note: {} {}\n", count, text);
  };
  if (!rules.strip_bom)
    note(texts.with_bom, "file(s) begin with a byte-order mark, kept in .txt (--strip-bom removes it)");
  if (!rules.normalize_newlines) {
    note(texts.with_crlf, "part(s) hold CRLF line ends, which are kept (--normalize-newlines makes them LF)");
  }
  note(texts.invalid_utf8, "part(s) hold bytes that are no UTF-8; each such byte is encoded as it is");
  note(texts.empty, "empty text(s) skipped");
  note(texts.blank, "blank text(s) skipped");
  note(texts.null, "null text(s) skipped");
}

ordered_json split_json(const TokenFileSummary& split) {
  return {{"prefix", split.prefix},
          {"documents", split.num_documents},
          {"tokens", split.num_tokens},
          {"text_bytes", split.text_bytes},
          {"bytes_per_token", split.bytes_per_token()},
          {"unigram_bits_per_token", split.bits_per_token},
          {"unigram_bits_per_byte", split.bits_per_byte()}};
}

void print_text(const PrepareReport& report) {
  for (const TokenFileSummary& split : report.splits) {
    fmt::print("{}: {} documents, {} tokens, {} bytes of text ({:.2f} bytes a token)\n",
               split.prefix,
               split.num_documents,
               split.num_tokens,
               split.text_bytes,
               split.bytes_per_token());
    fmt::print("unigram entropy: {:.4f} bits a token, {:.4f} bits a byte\n",
               split.bits_per_token,
               split.bits_per_byte());
  }
}

void print_json(const PrepareReport& report) {
  const TextCounts& texts = report.texts;
  ordered_json root = {{"splits", ordered_json::array()},
                       {"texts", texts.texts},
                       {"bytes", texts.bytes},
                       {"skipped", {{"empty", texts.empty}, {"blank", texts.blank}, {"null", texts.null}}},
                       {"blank_lines", texts.blank_lines},
                       {"with_bom", texts.with_bom},
                       {"with_crlf", texts.with_crlf},
                       {"invalid_utf8", texts.invalid_utf8}};
  for (const TokenFileSummary& split : report.splits) root["splits"].push_back(split_json(split));
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

Result<PrepareReport> prepare_dataset(PrepareArguments options) {
  LLMTRAIN_ASSIGN(tokenizer, load_tokenizer(expand_home(options.tokenizer)));
  LLMTRAIN_ASSIGN(eod, eod_of(*tokenizer, options.eod_token));
  PrepareOptions& wanted = options.prepare;
  wanted.tokenizer = tokenizer;
  wanted.eod_id = eod;
  wanted.inputs = expand_home(wanted.inputs);
  wanted.out = expand_home(wanted.out);
  wanted.num_threads = options.threads > 0 ? options.threads : available_threads();
  ProgressLine line("prepare");
  wanted.progress = [&line](std::int64_t done, std::int64_t total) { line.show(done, total, "bytes"); };
  const auto files = make_posix_filesystem();
  return prepare(*files, wanted);
}

int run_prepare(const PrepareArguments& options) {
  const auto report = prepare_dataset(options);
  if (!report) return report_error("data prepare", report.error());
  print_notes(report->texts, options.prepare.rules);
  options.json ? print_json(*report) : print_text(*report);
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_data_prepare(CLI::App& data, Runner& run) {
  auto options = std::make_shared<PrepareArguments>();
  PrepareOptions& wanted = options->prepare;
  auto* const command = data.add_subcommand("prepare", "Turn .txt and .jsonl files into token files");
  command->add_option("input,--input", wanted.inputs, "Text files: .txt is one document, .jsonl one a line")
      ->required();
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json, a directory with one, or `bytes`")
      ->required();
  command->add_option("--out", wanted.out, "Directory for the pair of token files")->required();
  command->add_option(
      "--valid-fraction", wanted.valid_fraction, "Share at the end for OUT/valid; the rest is OUT/train");
  command->add_option("--text-key", wanted.rules.text_key, "Key of the text in .jsonl objects")
      ->capture_default_str();
  command->add_option("--eod-token", options->eod_token, "Added token that ends a document");
  command->add_flag("--strip-bom", wanted.rules.strip_bom, "Remove a byte-order mark at the start of a text");
  command->add_flag("--normalize-newlines", wanted.rules.normalize_newlines, "Make CRLF and CR line ends LF");
  command->add_flag("--overwrite", wanted.overwrite, "Replace token files that an earlier run wrote there");
  command->add_option("--threads", options->threads, "Threads to encode with (0: all processors)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &run] { run = [options] { return run_prepare(*options); }; });
}

}  // namespace llmtrain::cli
