#include <nlohmann/json.hpp>

#include "llmtrain/data/bpe_trainer.hpp"
#include "llmtrain/data/byte_level.hpp"

// Members keep the order in which Hugging Face writes them, so that people find their way.
namespace llmtrain {
namespace {

using nlohmann::ordered_json;

constexpr const char* kEndOfText = "<|endoftext|>";

ordered_json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

}  // namespace

std::string to_tokenizer_json(const TrainedBpe& bpe) {
  ordered_json vocab = ordered_json::object();
  for (std::size_t id = 0; id < bpe.tokens.size(); ++id)
    vocab.push_back({byte_level_spelling(bpe.tokens[id]), id});
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : bpe.merges) {
    merges.push_back(byte_level_spelling(bpe.tokens[static_cast<std::size_t>(left)]) + " " +
                     byte_level_spelling(bpe.tokens[static_cast<std::size_t>(right)]));
  }
  const ordered_json end_of_text = {{"id", bpe.eod_id()},
                                    {"content", kEndOfText},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}};
  const ordered_json root = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", ordered_json::array({end_of_text})},
                             {"normalizer", nullptr},
                             {"pre_tokenizer", byte_level(true)},
                             {"post_processor", nullptr},
                             {"decoder", byte_level(true)},
                             {"model",
                              {{"type", "BPE"},
                               {"dropout", nullptr},
                               {"unk_token", nullptr},
                               {"continuing_subword_prefix", nullptr},
                               {"end_of_word_suffix", nullptr},
                               {"fuse_unk", false},
                               {"byte_fallback", false},
                               {"ignore_merges", false},
                               {"vocab", std::move(vocab)},
                               {"merges", std::move(merges)}}}};
  return root.dump(1) + "\n";
}

std::string tokenizer_config_json() {
  const ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                               {"bos_token", kEndOfText},
                               {"eos_token", kEndOfText},
                               {"add_prefix_space", false},
                               {"clean_up_tokenization_spaces", false}};
  return config.dump(2) + "\n";
}

}  // namespace llmtrain
