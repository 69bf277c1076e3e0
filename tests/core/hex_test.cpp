#include "llmtrain/core/hex.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("hex: there and back, every byte", "[core]") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string text = to_hex(bytes);
  CHECK(text.starts_with("000102"));
  CHECK(text.ends_with("fdfeff"));
  CHECK(from_hex(text) == bytes);
  CHECK(from_hex("") == "");
}

TEST_CASE("hex: what is none is nothing", "[core]") {
  for (const char* text : {"0", "0g", "AB", " 0", "0x", "00 "}) {
    INFO(text);
    CHECK_FALSE(from_hex(text));
  }
}
