#include "manifest_checksum.hpp"

#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/core/crc32c.hpp"

namespace llmtrain {
namespace {

// The tail has a fixed shape, so each of its bytes is checked by comparing.
constexpr std::string_view kBefore = " \"crc32c\": \"";
constexpr std::string_view kAfter = "\"\n}\n";
constexpr std::size_t kDigits = 8;
constexpr std::size_t kTail = kBefore.size() + kDigits + kAfter.size();

std::string tail_of(std::string_view body) {
  return fmt::format("{}{:08x}{}", kBefore, crc32c(std::as_bytes(std::span(body))), kAfter);
}

ManifestDamage damaged(std::uint64_t begin, std::uint64_t end, std::string what) {
  return {true, begin, end, std::move(what)};
}

}  // namespace

std::string with_manifest_checksum(std::string text) {
  text += tail_of(text);
  return text;
}

ManifestDamage check_manifest_bytes(std::string_view text) {
  if (text.size() < kTail)
    return damaged(0, text.size(), fmt::format("{} bytes are too few: the file is cut off", text.size()));
  const std::string_view body = text.substr(0, text.size() - kTail);
  const std::string_view found = text.substr(body.size());
  const std::string expected = tail_of(body);
  if (found == expected) return {};

  std::vector<std::size_t> different;
  for (std::size_t i = 0; i < kTail; ++i)
    if (found[i] != expected[i]) different.push_back(i);
  if (different.size() == 1) {
    const std::uint64_t at = body.size() + different.front();
    return damaged(at, at + 1, fmt::format("byte {} is damaged (in the manifest's own checksum)", at));
  }
  if (different.front() < kBefore.size() || different.back() >= kBefore.size() + kDigits)
    return damaged(
        body.size(),
        text.size(),
        fmt::format("damage in bytes {} to {}: the last line is not the manifest's checksum; the file is "
                    "cut off or overwritten",
                    body.size(),
                    text.size()));
  // All eight digits are digits, and several differ: the text before them changed.
  std::uint32_t stored = 0;
  for (const char digit : found.substr(kBefore.size(), kDigits)) {
    const std::size_t value = std::string_view("0123456789abcdef").find(digit);
    if (value == std::string_view::npos)
      return damaged(body.size(), text.size(), "the manifest's checksum is no number");
    stored = stored * 16 + static_cast<std::uint32_t>(value);
  }
  const std::uint32_t actual = crc32c(std::as_bytes(std::span(body)));
  const std::string sums = fmt::format("checksum {:08x} found, {:08x} written", actual, stored);
  if (const auto change = locate_single_byte(stored, actual, body.size()))
    return damaged(
        change->offset, change->offset + 1, fmt::format("byte {} is damaged ({})", change->offset, sums));
  return damaged(0, body.size(), fmt::format("damage in bytes 0 to {} ({})", body.size(), sums));
}

}  // namespace llmtrain
