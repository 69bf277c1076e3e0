#include "llmtrain/data/tokenizer.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "llmtrain/data/bpe_tokenizer.hpp"
#include "llmtrain/data/byte_level.hpp"
#include "llmtrain/data/byte_tokenizer.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using nlohmann::json;
using test::TemporaryDirectory;
using Ids = std::vector<std::int32_t>;

namespace {

// A small byte-level tokenizer: bytes 0 to 255, then one token for each merge, then `<s>` and `</s>`.
json small(const std::vector<std::pair<std::string, std::string>>& merges = {
               {"a", "b"}, {"\u0120", "ab"}, {"ab", "c"}}) {
  json vocab = json::object();
  for (int byte = 0; byte < 256; ++byte)
    vocab[byte_level_spelling(std::string(1, static_cast<char>(byte)))] = byte;
  json list = json::array();
  int next = 256;
  for (const auto& [left, right] : merges) {
    vocab[left + right] = next++;
    list.push_back({left, right});
  }
  const auto added = [&](const char* content) {
    return json{{"id", next++}, {"content", content}, {"normalized", false}, {"special", true}};
  };
  json tokens = json::array({added("<s>"), added("</s>")});
  return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", list}}},
          {"added_tokens", tokens},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"decoder", {{"type", "ByteLevel"}}}};
}

Result<std::shared_ptr<const BpeTokenizer>> build(const json& file) {
  LLMTRAIN_ASSIGN(definition, parse_tokenizer_json(file.dump(), "t.json"));
  return BpeTokenizer::make(std::move(definition));
}

Ids encode(const Tokenizer& tokenizer, std::string_view text, SpecialText special = SpecialText::kPlain) {
  return tokenizer.encode(text, special).value();
}

std::string refusal(const json& file) {
  const auto tokenizer = build(file);
  REQUIRE_FALSE(tokenizer);
  CHECK_FALSE(tokenizer.error().hint.empty());
  return tokenizer.error().message;
}

// Texts that break tokenizers: emoji sequences, marks, NUL, byte-order mark, CRLF, U+2028.
const std::vector<std::string> kHardTexts = {
    "",
    " ",
    "plain words, and 1234 numbers!",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x91\xA7 "
    "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
    "e\xCC\x81 \xC3\xA9 \xE1\xBA\x9B\xCC\xA3",
    std::string("a\0b\0", 4),
    "\xEF\xBB\xBFtext with a mark",
    "two\r\nlines\r\n\r\n",
    "a\xE2\x80\xA8"
    "b",
    "trailing spaces   ",
    "\t\ttabs\n\n\n   x",
    std::string(5000, 'a') + "bbb",
};
const std::vector<std::string> kInvalidTexts = {
    "\x80",        // a lone continuation byte
    "ab\xE2\x82",  // a cut character at the end
    "\xC0\xAF overlong",
    "\xED\xA0\x80 surrogate",
    "\xF5\x80\x80\x80",
    "ok \xFF\xFE ok",
};

}  // namespace

TEST_CASE("tokenizer: bytes are their own ids", "[data]") {
  const ByteTokenizer tokenizer;
  CHECK(encode(tokenizer, "AB\xFF") == Ids{65, 66, 255});
  CHECK(tokenizer.vocab_size() == 257);
  CHECK(tokenizer.eod_id() == 256);
  CHECK(*tokenizer.decode(Ids{72, 105, 256}) == "Hi");
  CHECK(tokenizer.decoded_bytes(Ids{72, 105, 256}) == 2);
  CHECK_FALSE(tokenizer.decode(Ids{257}));
  CHECK_FALSE(tokenizer.decode(Ids{-1}));
}

TEST_CASE("tokenizer: merges by rank, leftmost first", "[data]") {
  const auto tokenizer = *build(small());
  CHECK(encode(*tokenizer, "abc") == Ids{258});
  CHECK(encode(*tokenizer, "ab abc") == Ids{256, 257, 'c'});  // ` ab` outranks `abc`
  CHECK(encode(*tokenizer, "aab") == Ids{'a', 256});
  CHECK(tokenizer->vocab_size() == 261);
}

// openai/tiktoken#388: every text comes back, valid or not.
TEST_CASE("tokenizer: decode of encode gives the same bytes", "[data]") {
  const auto bpe = *build(small());
  const ByteTokenizer bytes;
  for (const Tokenizer* tokenizer :
       {static_cast<const Tokenizer*>(bpe.get()), static_cast<const Tokenizer*>(&bytes)}) {
    for (const auto* texts : {&kHardTexts, &kInvalidTexts}) {
      for (const std::string& text : *texts) CHECK(*tokenizer->decode(encode(*tokenizer, text)) == text);
    }
  }
}

TEST_CASE("tokenizer: a character cut at 64 kB becomes bytes and comes back", "[data]") {
  const auto tokenizer = *build(small());
  std::string text(65535, 'x');
  text += "\xF0\x9F\x91\xA9";
  for (std::size_t keep = 65535; keep <= text.size(); ++keep) {
    const std::string cut = text.substr(0, keep);
    CHECK(*tokenizer->decode(encode(*tokenizer, cut)) == cut);
  }
}

TEST_CASE("tokenizer: long words merge as short ones do", "[data]") {
  const auto tokenizer = *build(small({{"a", "a"}, {"aa", "aa"}, {"b", "a"}, {"aaaa", "b"}}));
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(static_cast<std::size_t>(i % 7), 'a') + "b";
  // The reference: the definition, pair by pair.
  Ids expected;
  for (const char c : text) expected.push_back(c);
  const std::vector<std::array<std::int32_t, 3>> merges = {
      {'a', 'a', 256}, {256, 256, 257}, {'b', 'a', 258}, {257, 'b', 259}};
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [left, right, result] : merges) {
      for (std::size_t i = 0; i + 1 < expected.size() && !changed; ++i) {
        if (expected[i] != left || expected[i + 1] != right) continue;
        expected[i] = result;
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        changed = true;
      }
      if (changed) break;
    }
  }
  CHECK(encode(*tokenizer, text) == expected);
  for (std::size_t n = 1; n < 60; ++n) {
    const std::string part = text.substr(0, n);
    CHECK(*tokenizer->decode(encode(*tokenizer, part)) == part);
  }
}

TEST_CASE("tokenizer: special tokens in a text are text, unless it is a prompt", "[data]") {
  const auto tokenizer = *build(small());
  CHECK(encode(*tokenizer, "ab<s>ab") == Ids{256, '<', 's', '>', 256});
  CHECK(encode(*tokenizer, "ab<s>ab", SpecialText::kToken) == Ids{256, 259, 256});
  CHECK(*tokenizer->decode(Ids{256, 259, 260}) == "ab");
  CHECK(*tokenizer->decode(Ids{256, 259, 260}, true) == "ab<s></s>");
  CHECK(tokenizer->decoded_bytes(Ids{256, 259, 260}) == 2);
  CHECK(tokenizer->eod_id() == 260);
}

TEST_CASE("tokenizer: added tokens are found leftmost and longest, with their white space", "[data]") {
  json file = small();
  file["added_tokens"].push_back({{"id", 261}, {"content", "xy"}, {"normalized", false}});
  file["added_tokens"].push_back(
      {{"id", 262}, {"content", "xyz"}, {"normalized", false}, {"lstrip", true}, {"rstrip", true}});
  file["added_tokens"].push_back(
      {{"id", 263}, {"content", "word"}, {"normalized", false}, {"single_word", true}});
  const auto tokenizer = *build(file);
  CHECK(encode(*tokenizer, "ab  xyz  ab") == Ids{256, 262, 256});
  CHECK(encode(*tokenizer, "xyxy") == Ids{261, 261});
  CHECK(encode(*tokenizer, "word") == Ids{263});
  CHECK(encode(*tokenizer, "words") == Ids{'w', 'o', 'r', 'd', 's'});
}

TEST_CASE("tokenizer: NFC composes what it can", "[data]") {
  json file = small();
  file["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = *build(file);
  CHECK(encode(*tokenizer, "e\xCC\x81") == encode(*tokenizer, "\xC3\xA9"));
  CHECK(encode(*tokenizer, "e\xCC\x81") == Ids{0xC3, 0xA9});
}

// instructlab/training#672: borders are added where wanted, never twice.
TEST_CASE("tokenizer: BOS and EOD are independent and never double", "[data]") {
  json file = small();
  const json bos = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {
      {"type", "TemplateProcessing"}, {"single", {bos, text}}, {"special_tokens", json::object()}};
  const auto tokenizer = *build(file);
  CHECK(tokenizer->bos_id() == 259);
  CHECK(encode(*tokenizer, "ab") == Ids{256});  // encoding itself adds nothing
  const auto bordered = [&](bool with_bos, bool with_eod) {
    Ids ids = encode(*tokenizer, "ab");
    add_borders(*tokenizer, with_bos, with_eod, ids);
    add_borders(*tokenizer, with_bos, with_eod, ids);
    return ids;
  };
  CHECK(bordered(false, false) == Ids{256});
  CHECK(bordered(true, false) == Ids{259, 256});
  CHECK(bordered(false, true) == Ids{256, 260});
  CHECK(bordered(true, true) == Ids{259, 256, 260});
}

// huggingface/swift-transformers#131: merges are pairs in new files, strings in old ones.
TEST_CASE("tokenizer: both spellings of merges give the same ids", "[data]") {
  const json pairs = small();
  json strings = pairs;
  for (json& merge : strings["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  const std::string text = "abc ab abcab  cab";
  CHECK(encode(**build(pairs), text) == encode(**build(strings), text));
  for (json none : {json(nullptr), json::array(), json("x")}) {
    json file = pairs;
    file["model"]["merges"] = none;
    CHECK(refusal(file).find("`model.merges` is missing or empty") != std::string::npos);
  }
}

// huggingface/tokenizers#909: a token with a space in it needs the pair form.
TEST_CASE("tokenizer: merges with a space inside a token", "[data]") {
  json file = small();
  json& vocab = file["model"]["vocab"];
  vocab["b c"] = 261;
  vocab["ab c"] = 262;
  vocab[" c"] = 263;
  file["model"]["merges"].push_back({"b", " c"});
  file["model"]["merges"].push_back({"a", "b c"});
  const auto tokenizer = build(file);
  REQUIRE(tokenizer);
  CHECK(encode(**tokenizer, "abc") == Ids{258});
  file["model"]["merges"][4] = "a b c";
  CHECK(refusal(file).find("model.merges[4] is \"a b c\"; a merge is two tokens") != std::string::npos);
}

TEST_CASE("tokenizer: unsupported parts are refused by name", "[data]") {
  const auto with = [](const char* key, const json& value) {
    json file = small();
    file[json::json_pointer(key)] = value;
    return refusal(file);
  };
  CHECK(with("/normalizer", {{"type", "Lowercase"}}) == "t.json: normalizer Lowercase is not supported");
  CHECK(with("/pre_tokenizer", {{"type", "Metaspace"}}) ==
        "t.json: pre_tokenizer Metaspace is not supported");
  CHECK(with("/pre_tokenizer", nullptr) == "t.json: pre_tokenizer null is not supported");
  CHECK(with("/decoder", {{"type", "WordPiece"}}) == "t.json: decoder WordPiece is not supported");
  CHECK(with("/post_processor", {{"type", "BertProcessing"}}) ==
        "t.json: post_processor BertProcessing is not supported");
  CHECK(with("/truncation", {{"max_length", 512}}) == "t.json: truncation is not supported");
  CHECK(with("/model/type", "Unigram") == "t.json: model type Unigram is not supported");
  CHECK(with("/model/byte_fallback", true) == "t.json: model.byte_fallback is not supported");
  CHECK(with("/model/end_of_word_suffix", "</w>") == "t.json: model.end_of_word_suffix is not supported");
  CHECK(with("/model/dropout", 0.1) == "t.json: model.dropout is not supported");
}

TEST_CASE("tokenizer: contradictions in its files are refused", "[data]") {
  json file = small();
  file["model"]["merges"].push_back({"q", "r"});
  CHECK(refusal(file).find("merge 3 (`q` + `r`): token `qr` is not in the vocabulary") != std::string::npos);
  file = small();
  file["model"]["vocab"]["extra"] = 256;
  CHECK(refusal(file).find("both have id 256") != std::string::npos);
  file = small();
  file["model"]["vocab"]["extra"] = -5;
  CHECK(refusal(file).find("token `extra` has id -5") != std::string::npos);
  file["model"]["vocab"]["extra"] = 2000000000;
  CHECK(refusal(file).find("has id 2000000000; allowed are 0 to 16777215") != std::string::npos);
  file = small();
  file["model"].erase("vocab");
  CHECK(refusal(file).find("`model.vocab` is missing") != std::string::npos);
  CHECK_FALSE(parse_tokenizer_json("{", "t.json"));
  CHECK_FALSE(parse_tokenizer_json("[]", "t.json"));
}

TEST_CASE("tokenizer: a byte that the vocabulary lacks is an error that names it", "[data]") {
  json file = small();
  file["model"]["vocab"].erase(byte_level_spelling("z"));
  const auto ids = (*build(file))->encode("az", SpecialText::kPlain);
  REQUIRE_FALSE(ids);
  CHECK(ids.error().message == "t.json: the vocabulary has no token for byte 0x7A");
}

TEST_CASE("tokenizer: safe cuts do not change ids", "[data]") {
  const auto tokenizer = *build(small());
  std::string text;
  for (const std::string& hard : kHardTexts) text += hard + " abc ";
  const Ids whole = encode(*tokenizer, text);
  int cuts = 0;
  for (std::size_t target = 1; target < text.size(); target += 3) {
    const std::size_t cut = tokenizer->safe_cut(text, target);
    if (cut == 0) continue;
    ++cuts;
    Ids parts = encode(*tokenizer, text.substr(0, cut));
    const Ids rest = encode(*tokenizer, text.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    REQUIRE(parts == whole);
  }
  CHECK(cuts > 100);
  json other = small();
  other["pre_tokenizer"] = {{"type", "Sequence"},
                            {"pretokenizers",
                             {{{"type", "Split"}, {"pattern", {{"Regex", "x+"}}}, {"behavior", "Isolated"}},
                              {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  CHECK((*build(other))->safe_cut(text, 100) == 0);  // an unknown pattern may span any place
}

TEST_CASE("load tokenizer: files and directories are recognised by their content", "[data]") {
  const TemporaryDirectory dir;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
  };
  CHECK(load_tokenizer("bytes"));
  const auto missing = load_tokenizer(dir / "nothing.json");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::kNotFound);
  CHECK_FALSE(load_tokenizer(dir.path()));

  const json file = small();
  write("some name", file.dump());
  REQUIRE(load_tokenizer(dir / "some name"));
  write("tokenizer.json", file.dump());
  REQUIRE(load_tokenizer(dir.path()));

  std::filesystem::create_directory(dir / "gpt2");
  json vocab = file["model"]["vocab"];
  vocab["<|endoftext|>"] = 259;
  std::string merges = "#version: 0.2\n";
  for (const json& merge : file["model"]["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\r\n";
  write("gpt2/encoder.json", vocab.dump());
  write("gpt2/vocab.bpe", merges);
  for (const char* path : {"gpt2", "gpt2/encoder.json", "gpt2/vocab.bpe"}) {
    const auto gpt2 = load_tokenizer(dir / path);
    REQUIRE(gpt2);
    CHECK((*gpt2)->eod_id() == 259);
    CHECK(encode(**gpt2, "abc ab") == Ids{258, 257});
  }
  write("model", std::string("\n\x05\n\x03<unk>", 8));
  CHECK(load_tokenizer(dir / "model").error().message.find("SentencePiece") != std::string::npos);
  write("ranks", "IQ== 0\nIg== 1\n");
  CHECK(load_tokenizer(dir / "ranks").error().message.find("tiktoken") != std::string::npos);
  write("empty", "");
  CHECK(load_tokenizer(dir / "empty").error().code == ErrorCode::kData);
}

TEST_CASE("load tokenizer: eos_token of tokenizer_config.json ends documents when no usual name does",
          "[data]") {
  const TemporaryDirectory dir;
  json file = small();
  file["added_tokens"][1]["content"] = "<stop>";
  std::ofstream(dir / "tokenizer.json") << file.dump();
  CHECK_FALSE((*load_tokenizer(dir.path()))->eod_id());
  std::ofstream(dir / "tokenizer_config.json") << R"({"eos_token": {"content": "<stop>"}})";
  CHECK((*load_tokenizer(dir.path()))->eod_id() == 260);
}
