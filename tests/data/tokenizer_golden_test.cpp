#include <filesystem>
#include <string>
#include <vector>

#include "llmtrain/data/tokenizer.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace llmtrain;
using Ids = std::vector<std::int32_t>;

// Ids that tiktoken and Hugging Face agree on; the files lie outside the repository.
TEST_CASE("tokenizer: golden ids of GPT-2 and Qwen3", "[data]") {
  const std::string shared = std::string(LLMTRAIN_SOURCE_DIR) + "/../shared/data/tokenizers/";
  if (!std::filesystem::exists(shared)) test::skip_executable("../shared/data/tokenizers is not here");
  const std::string text = "Hello, world! It's 12345 dollars\n\n  tabs\tand   spaces ";
  const auto gpt2 = load_tokenizer(shared + "gpt2");
  REQUIRE(gpt2);
  CHECK((*gpt2)->encode(text, SpecialText::kPlain).value() ==
        Ids{15496, 11, 995, 0, 632, 338, 17031, 2231, 5054, 628, 220, 22524, 197, 392, 220, 220, 9029, 220});
  CHECK((*gpt2)->eod_id() == 50256);
  const auto qwen3 = load_tokenizer(shared + "qwen3");
  REQUIRE(qwen3);
  CHECK((*qwen3)->encode(text, SpecialText::kPlain).value() == Ids{9707, 11,    1879,  0,   1084,  594,   220,
                                                                   16,   17,    18,    19,  20,    11192, 271,
                                                                   220,  22398, 52477, 256, 12621, 220});
  CHECK((*qwen3)->eod_id() == 151643);
  CHECK((*qwen3)->encode("<|im_start|>", SpecialText::kToken).value() == Ids{151644});
}
