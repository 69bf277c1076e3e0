#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/data/split_pattern.hpp"
#include "llmtrain/data/tokenizer_definition.hpp"

// Reader of Hugging Face's tokenizer.json, as far as byte-level BPE needs it. A part that would change
// ids and is not built here is refused by name: ids that are nearly right are worse than none.
namespace llmtrain {
namespace {

using nlohmann::json;

class Parser {
 public:
  Parser(const json& root, const std::string& name) : root_(root) { out_.name = name; }

  Result<TokenizerDefinition> parse() {
    LLMTRAIN_TRY(check_absent("truncation"));
    LLMTRAIN_TRY(check_absent("padding"));
    LLMTRAIN_TRY(read_model());
    LLMTRAIN_TRY(read_added_tokens());
    LLMTRAIN_TRY(read_normalizer(part(root_, "normalizer")));
    LLMTRAIN_TRY(read_pre_tokenizer(part(root_, "pre_tokenizer"), true));
    if (!byte_level_) {
      return unsupported("pre_tokenizer without ByteLevel", "only byte-level BPE is supported");
    }
    LLMTRAIN_TRY(read_post_processor(part(root_, "post_processor")));
    LLMTRAIN_TRY(check_decoder(part(root_, "decoder")));
    return std::move(out_);
  }

 private:
  Error unsupported(const std::string& what, const std::string& allowed) const {
    return {ErrorCode::kUnsupported, fmt::format("{}: {} is not supported", out_.name, what), allowed};
  }
  Error malformed(const std::string& what) const {
    return {
        ErrorCode::kData, fmt::format("{}: {}", out_.name, what), "the file is damaged or no tokenizer.json"};
  }

  // A member, or null when it is absent.
  static const json& part(const json& object, const char* key) {
    static const json kNull;
    if (!object.is_object()) return kNull;
    const auto found = object.find(key);
    return found == object.end() ? kNull : *found;
  }
  static std::string type_of(const json& object) {
    const json& type = part(object, "type");
    return type.is_string() ? type.get<std::string>() : "?";
  }
  static bool flag(const json& object, const char* key, bool otherwise) {
    const json& value = part(object, key);
    return value.is_boolean() ? value.get<bool>() : otherwise;
  }

  Status check_absent(const char* key) {
    if (part(root_, key).is_null()) return ok_status();
    return unsupported(key, fmt::format("set `{}` to null in the file", key));
  }

  Status read_model() {
    const json& model = part(root_, "model");
    if (!model.is_object()) return malformed("`model` is missing");
    const json& type = part(model, "type");  // older files leave it out
    if (!type.is_null() && type != "BPE")
      return unsupported("model type " + type_of(model), "allowed is BPE");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json& value = part(model, key);
      if (!value.is_null() && value != "")
        return unsupported(fmt::format("model.{}", key), "allowed is null or empty");
    }
    const json& dropout = part(model, "dropout");
    if (!dropout.is_null() && dropout != 0) return unsupported("model.dropout", "allowed is null");
    if (flag(model, "byte_fallback", false))
      return unsupported("model.byte_fallback", "only byte-level BPE is supported");
    out_.ignore_merges = flag(model, "ignore_merges", false);
    LLMTRAIN_TRY(read_vocab(part(model, "vocab")));
    return read_merges(part(model, "merges"));
  }

  Status read_vocab(const json& vocab) {
    if (!vocab.is_object() || vocab.empty()) return malformed("`model.vocab` is missing or empty");
    for (const auto& [token, id] : vocab.items()) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) {
        return malformed(
            fmt::format("model.vocab: token `{}` has id {}; ids are integers from 0", token, id.dump()));
      }
      out_.vocab.emplace(token, id.get<std::int32_t>());
    }
    return ok_status();
  }

  Status read_merges(const json& merges) {
    if (!merges.is_array() || merges.empty()) {
      return malformed(
          "`model.merges` is missing or empty; without merges every text would become single bytes");
    }
    out_.merges.reserve(merges.size());
    for (std::size_t i = 0; i < merges.size(); ++i) {
      const json& merge = merges[i];
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        out_.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
        continue;
      }
      const std::string text = merge.is_string() ? merge.get<std::string>() : "";
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || space == 0 || text.find(' ', space + 1) != std::string::npos ||
          space + 1 == text.size()) {
        return malformed(
            fmt::format("model.merges[{}] is {}; a merge is two tokens, as \"a b\" or [\"a\", \"b\"]; "
                        "tokens that hold a space need the second form",
                        i,
                        merge.dump(-1, ' ', false, json::error_handler_t::replace)));
      }
      out_.merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    }
    return ok_status();
  }

  Status read_added_tokens() {
    const json& tokens = part(root_, "added_tokens");
    if (tokens.is_null()) return ok_status();
    if (!tokens.is_array()) return malformed("`added_tokens` is no list");
    for (const json& token : tokens) {
      const json& id = part(token, "id");
      const json& content = part(token, "content");
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX || !content.is_string() || content == "") {
        return malformed("added_tokens: an entry has no valid `id` and `content`");
      }
      out_.added.push_back({.id = id.get<std::int32_t>(),
                            .content = content.get<std::string>(),
                            .single_word = flag(token, "single_word", false),
                            .lstrip = flag(token, "lstrip", false),
                            .rstrip = flag(token, "rstrip", false),
                            .normalized = flag(token, "normalized", true),
                            .special = flag(token, "special", false)});
    }
    return ok_status();
  }

  Status read_normalizer(const json& normalizer) {
    if (normalizer.is_null()) return ok_status();
    const std::string type = type_of(normalizer);
    if (type == "NFC") {
      out_.nfc = true;
      return ok_status();
    }
    if (type != "Sequence") return unsupported("normalizer " + type, "allowed are NFC and Sequence");
    for (const json& step : part(normalizer, "normalizers")) LLMTRAIN_TRY(read_normalizer(step));
    return ok_status();
  }

  Status read_pre_tokenizer(const json& step, bool top) {
    const std::string type = step.is_null() ? "null" : type_of(step);
    if (byte_level_)
      return unsupported(fmt::format("pre_tokenizer {} after ByteLevel", type), "ByteLevel comes last");
    if (type == "Sequence" && top) {
      for (const json& inner : part(step, "pretokenizers")) LLMTRAIN_TRY(read_pre_tokenizer(inner, false));
      return ok_status();
    }
    if (type == "Split") return read_split(step);
    if (type == "Digits") {
      out_.splits.push_back({flag(step, "individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)"});
      return ok_status();
    }
    if (type != "ByteLevel")
      return unsupported("pre_tokenizer " + type, "allowed are Split, Digits and ByteLevel");
    byte_level_ = true;
    out_.add_prefix_space = flag(step, "add_prefix_space", true);
    if (out_.add_prefix_space && !out_.splits.empty()) {
      return unsupported("ByteLevel.add_prefix_space after a split", "allowed is false");
    }
    if (flag(step, "use_regex", true)) out_.splits.push_back({std::string(kGpt2Pattern)});
    return ok_status();
  }

  Status read_split(const json& split) {
    const json& pattern = part(split, "pattern");
    const json& behavior = part(split, "behavior");
    const bool invert = flag(split, "invert", false);
    const bool drops_gaps = behavior == "Removed" && invert;
    if (behavior != "Isolated" && !drops_gaps) {
      return unsupported(fmt::format("Split with behavior {} and invert {}", behavior.dump(), invert),
                         "allowed are Isolated, and Removed with invert true");
    }
    const json& regex = part(pattern, "Regex");
    const json& literal = part(pattern, "String");
    if (!regex.is_string() && !literal.is_string())
      return malformed("a Split has neither a Regex nor a String pattern");
    out_.splits.push_back(
        {(regex.is_string() ? regex : literal).get<std::string>(), !regex.is_string(), drops_gaps});
    if (out_.splits.back().regex.empty()) return malformed("a Split has an empty pattern");
    return ok_status();
  }

  // Templates are not applied (a corpus has no BOS), but say which token begins a text.
  Status read_post_processor(const json& step) {
    if (step.is_null()) return ok_status();
    const std::string type = type_of(step);
    if (type == "ByteLevel") return ok_status();
    if (type == "Sequence") {
      for (const json& inner : part(step, "processors")) LLMTRAIN_TRY(read_post_processor(inner));
      return ok_status();
    }
    if (type != "TemplateProcessing") {
      return unsupported("post_processor " + type, "allowed are ByteLevel, TemplateProcessing and Sequence");
    }
    const json& single = part(step, "single");
    if (!single.is_array() || single.empty()) return ok_status();
    const json& id = part(part(single[0], "SpecialToken"), "id");
    if (!id.is_string()) return ok_status();
    for (const AddedToken& token : out_.added) {
      if (token.content == id.get<std::string>()) out_.bos_id = token.id;
    }
    return ok_status();
  }

  Status check_decoder(const json& step) {
    if (step.is_null() || type_of(step) == "ByteLevel") return ok_status();
    if (type_of(step) != "Sequence") return unsupported("decoder " + type_of(step), "allowed is ByteLevel");
    for (const json& inner : part(step, "decoders")) LLMTRAIN_TRY(check_decoder(inner));
    return ok_status();
  }

  const json& root_;
  TokenizerDefinition out_;
  bool byte_level_ = false;
};

Result<json> parse_object(const std::string& bytes, const std::string& name) {
  json root;
  try {
    root = json::parse(bytes);
  } catch (const json::exception& error) {
    return Error{
        ErrorCode::kData, fmt::format("{}: not valid JSON: {}", name, error.what()), "give a tokenizer.json"};
  }
  if (!root.is_object()) {
    return Error{ErrorCode::kData, fmt::format("{}: the JSON is no object", name), "give a tokenizer.json"};
  }
  return root;
}

}  // namespace

Result<TokenizerDefinition> parse_tokenizer_json(const std::string& bytes, const std::string& name) {
  LLMTRAIN_ASSIGN(root, parse_object(bytes, name));
  return Parser(root, name).parse();
}

Result<TokenizerDefinition> parse_gpt2_files(const std::string& merges,
                                             const std::string& vocab,
                                             const std::string& name) {
  LLMTRAIN_ASSIGN(root, parse_object(vocab, name));
  json model = {{"type", "BPE"}, {"vocab", std::move(root)}, {"merges", json::array()}};
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string line = merges.substr(begin, end - begin);
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool header = begin == 0 && line.starts_with("#version");
    if (!line.empty() && !header) model["merges"].push_back(std::move(line));
    begin = end + 1;
  }
  json added = json::array();
  const auto end_of_text = model["vocab"].find("<|endoftext|>");
  if (end_of_text != model["vocab"].end()) {
    added.push_back(
        {{"id", *end_of_text}, {"content", "<|endoftext|>"}, {"normalized", false}, {"special", true}});
  }
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return Parser({{"model", std::move(model)}, {"added_tokens", added}, {"pre_tokenizer", byte_level}}, name)
      .parse();
}

}  // namespace llmtrain
