#include "llmtrain/core/crc32c.hpp"

#include <string>
#include <string_view>

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

std::uint32_t crc_of(std::string_view text, std::uint32_t crc = 0) {
  return crc32c(std::as_bytes(std::span(text)), crc);
}

}  // namespace

TEST_CASE("crc32c: known vectors of the iSCSI convention", "[core]") {
  CHECK(crc_of("") == 0);
  CHECK(crc_of("123456789") == 0xE3069283);
  CHECK(crc_of(std::string(32, '\0')) == 0x8A9136AA);  // RFC 3720, appendix B.4
  CHECK(crc_of(std::string(32, '\xff')) == 0x62A8AB43);
}

TEST_CASE("crc32c: incremental, and combinable", "[core]") {
  const std::string text = "llmtrain keeps what it was given";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string_view a = std::string_view(text).substr(0, cut);
    const std::string_view b = std::string_view(text).substr(cut);
    CHECK(crc_of(b, crc_of(a)) == crc_of(text));
    CHECK(crc32c_combine(crc_of(a), crc_of(b), b.size()) == crc_of(text));
  }
  const std::string zeros(5'000'000, '\0');
  CHECK(crc32c_combine(crc_of("head"), crc_of(zeros), zeros.size()) == crc_of("head" + zeros));
}

TEST_CASE("crc32c: a single changed byte is located", "[core]") {
  std::string text(3000, 'x');
  const std::uint32_t before = crc_of(text);
  for (const std::size_t at : {0, 1, 255, 1500, 2998, 2999}) {
    text[at] ^= 0x41;
    CHECK(locate_single_byte(before, crc_of(text), text.size()) == ByteChange{at, 0x41});
    text[at] ^= 0x41;
  }
  CHECK(!locate_single_byte(before, before, text.size()));
  text[10] ^= 1;
  text[2000] ^= 1;
  CHECK(!locate_single_byte(before, crc_of(text), text.size()));
}
