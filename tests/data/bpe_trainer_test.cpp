#include "llmtrain/data/bpe_trainer.hpp"

#include "llmtrain/data/bpe_tokenizer.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

TrainedBpe train(std::string_view text, std::int64_t vocab_size) {
  WordCounts counts;
  REQUIRE(count_words(text, counts));
  return train_bpe(counts, vocab_size, [](std::int64_t) {}).value();
}

}  // namespace

TEST_CASE("bpe trainer: joins the most frequent pair, of equals the one with smaller ids", "[data]") {
  // Words: `abab` and ` ab` twice: ab occurs 4 times, then ` ab`, `abab`.
  const TrainedBpe bpe = train("abab ab ab xy", 300);
  REQUIRE(bpe.merges.size() >= 2);
  CHECK(bpe.tokens[256] == "ab");
  CHECK(bpe.tokens[257] == " ab");
  CHECK(bpe.merges.size() == 2);  // no other pair occurs twice
  CHECK(bpe.eod_id() == 258);
  CHECK(bpe.vocab_size() == 259);
  const TrainedBpe tie = train("cd cd ab ab", 258 + 1);
  // ` a`, `ab` and `cd` occur twice each; a space is the smallest left id.
  CHECK(tie.tokens[256] == " a");
}

TEST_CASE("bpe trainer: runs of one letter are counted as they are joined", "[data]") {
  const TrainedBpe bpe = train("aaaa aaaa aaaa aaaaaaaa", 300);
  CHECK(bpe.tokens[256] == "aa");
  CHECK(bpe.tokens[257] == "aaaa");
}

TEST_CASE("bpe trainer: its tokenizer.json loads and encodes back", "[data]") {
  const std::string text =
      "In the beginning God created the heaven and the earth. And the earth was without form, and void; and "
      "darkness was upon the face of the deep. \xC3\xA9\xC3\xA8 \xE6\xBC\xA2\xE5\xAD\x97 \n\n  1234 \x01 "
      "tabs\t.";
  const TrainedBpe bpe = train(text + text, 320);
  const auto definition = parse_tokenizer_json(to_tokenizer_json(bpe), "trained");
  REQUIRE(definition);
  const auto tokenizer = BpeTokenizer::make(*definition);
  REQUIRE(tokenizer);
  CHECK((*tokenizer)->vocab_size() == bpe.vocab_size());
  CHECK((*tokenizer)->eod_id() == bpe.eod_id());
  const auto ids = (*tokenizer)->encode(text, SpecialText::kPlain);
  REQUIRE(ids);
  CHECK(ids->size() < text.size());
  CHECK(*(*tokenizer)->decode(*ids) == text);
  for (std::int32_t id = 0; id < 256; ++id)
    CHECK((*tokenizer)->bytes_of(id) == bpe.tokens[static_cast<std::size_t>(id)]);
}

TEST_CASE("bpe trainer: impossible vocabularies and empty texts are refused", "[data]") {
  WordCounts counts;
  const auto empty = train_bpe(counts, 300, [](std::int64_t) {});
  REQUIRE_FALSE(empty);
  CHECK(empty.error().code == ErrorCode::kData);
  for (const std::int64_t size : {-1, 0, 257}) {
    const Status status = check_vocab_size(size);
    REQUIRE_FALSE(status);
    CHECK(status.error().code == ErrorCode::kUsage);
  }
  CHECK(check_vocab_size(258));
}
