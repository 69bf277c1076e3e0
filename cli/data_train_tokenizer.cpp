#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/data/bpe_trainer.hpp"
#include "llmtrain/data/count_texts.hpp"
#include "llmtrain/data/split_pattern.hpp"

#include "data_commands.hpp"
#include "job_arguments.hpp"
#include "progress_line.hpp"

// `llmtrain data train-tokenizer INPUT... --vocab-size N --out PATH`: learn a byte-level BPE.
namespace llmtrain::cli {
namespace {

using nlohmann::ordered_json;

struct TrainArguments {
  std::vector<std::string> inputs;
  std::int64_t vocab_size = 0;
  std::string out;
  TextRules rules;
  int threads = 0;
  bool overwrite = false;
  bool json = false;
};

struct TrainReport {
  std::string path;
  std::int64_t vocab_size = 0;
  std::int64_t num_words = 0;
  TextCounts texts;
};

// A directory also gets a tokenizer_config.json, so that Hugging Face's loaders take it.
Status write_tokenizer(FileSystem& files, const std::string& path, bool directory, const TrainedBpe& bpe) {
  LLMTRAIN_TRY(make_directories(files, parent_path(path)));
  if (directory) {
    const std::string config = join_path(parent_path(path), "tokenizer_config.json");
    LLMTRAIN_TRY(write_file_durably(files, config, tokenizer_config_json()));
  }
  return write_file_durably(files, path, to_tokenizer_json(bpe));
}

Result<TrainedBpe> train(const TrainArguments& options, TrainReport& report) {
  LLMTRAIN_TRY(check_vocab_size(options.vocab_size));
  LLMTRAIN_ASSIGN(input, TextInput::open(expand_home(options.inputs), cut_before_space));
  WordCounts words;
  {
    ProgressLine line("count words");
    const int threads = options.threads > 0 ? options.threads : available_threads();
    const auto progress = [&](std::int64_t done) { line.show(done, input.num_bytes(), "bytes"); };
    LLMTRAIN_TRY(count_texts(input, options.rules, threads, progress, words, report.texts));
  }
  report.num_words = std::ssize(words);
  ProgressLine line("merge pairs");
  return train_bpe(words, options.vocab_size, [&](std::int64_t done) {
    line.show(done, options.vocab_size - 257, "merges");
  });
}

Result<TrainReport> train_and_write(const TrainArguments& options) {
  const auto files = make_posix_filesystem();
  const std::string out = expand_home(options.out);
  const bool directory = !out.ends_with(".json");
  TrainReport report;
  report.path = directory ? join_path(out, "tokenizer.json") : out;
  LLMTRAIN_ASSIGN(taken, files->info(report.path));
  if (taken && !options.overwrite) {
    return Error{ErrorCode::kUsage,
                 fmt::format("{}: exists already", report.path),
                 "choose another path, or give --overwrite"};
  }
  LLMTRAIN_ASSIGN(bpe, train(options, report));
  report.vocab_size = bpe.vocab_size();
  LLMTRAIN_TRY(write_tokenizer(*files, report.path, directory, bpe));
  return report;
}

void print_report(const TrainReport& report, bool json) {
  if (!json) {
    fmt::print("{}: {} ids, learnt from {} texts, {} bytes, {} distinct words\n",
               report.path,
               report.vocab_size,
               report.texts.texts,
               report.texts.bytes,
               report.num_words);
    return;
  }
  const ordered_json root = {{"path", report.path},
                             {"vocab_size", report.vocab_size},
                             {"texts", report.texts.texts},
                             {"bytes", report.texts.bytes},
                             {"distinct_words", report.num_words}};
  fmt::print("{}\n", root.dump(2, ' ', false, ordered_json::error_handler_t::replace));
}

int run_train(const TrainArguments& options) {
  const auto report = train_and_write(options);
  if (!report) return report_error("data train-tokenizer", report.error());
  if (report->vocab_size < options.vocab_size) {
    fmt::print(stderr,
               "note: the vocabulary has {} ids, not {}: no other pair occurs twice in the text\n",
               report->vocab_size,
               options.vocab_size);
  }
  print_report(*report, options.json);
  return to_int(ExitCode::kDone);
}

}  // namespace

void add_data_train_tokenizer(CLI::App& data, Runner& run) {
  auto options = std::make_shared<TrainArguments>();
  auto* const command =
      data.add_subcommand("train-tokenizer", "Learn a byte-level BPE and write it as tokenizer.json");
  command->add_option("input,--input", options->inputs, "Text files: .txt or .jsonl")->required();
  command
      ->add_option(
          "--vocab-size", options->vocab_size, "Ids in all: 256 bytes, merges, and the end of a document")
      ->required();
  command->add_option("--out", options->out, "A .json file, or a directory for tokenizer.json")->required();
  command->add_option("--text-key", options->rules.text_key, "Key of the text in .jsonl objects")
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads to count with (0: all processors)")
      ->check(CLI::Range(0, 1024));
  command->add_flag("--overwrite", options->overwrite, "Replace a tokenizer that is there");
  command->add_flag("--json", options->json, "Print the summary as JSON");
  command->callback([options, &run] { run = [options] { return run_train(*options); }; });
}

}  // namespace llmtrain::cli
