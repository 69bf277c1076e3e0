#include "llmtrain/submit/quoting.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "llmtrain/core/crc32c.hpp"

namespace llmtrain {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_harmless(std::string_view text, std::string_view others) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || others.find(c) != std::string_view::npos;
  });
}

// The text in quotes, with a backslash before each character of `escaped`.
std::string escaped_with(std::string_view text, std::string_view escaped) {
  std::string result = "\"";
  for (const char c : text) {
    if (escaped.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result + '"';
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  if (is_harmless(text, "_-./:=,@%+")) return std::string(text);
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'')
      result += "'\\''";
    else
      result += c;
  }
  return result + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) {
    if (!result.empty()) result += ' ';
    result += shell_quoted(word);
  }
  return result;
}

std::string sbatch_quoted(std::string_view text) {
  if (is_harmless(text, "_-./:=,@%+&|*[]()")) return std::string(text);
  return escaped_with(text, "\"\\");
}

std::string yaml_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (byte < 0x20 || byte == 0x7f)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += c;
  }
  return result + '"';
}

std::string kubernetes_quoted(std::string_view text) {
  std::string doubled;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '(' || text[i + 1] == '$')) doubled += '$';
    doubled += text[i];
  }
  return yaml_quoted(doubled);
}

std::string dns_name(std::string_view text, std::size_t limit) {
  std::string name;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const char kept = is_alphanumeric(c) ? c : '-';
    if (kept != '-' || (!name.empty() && name.back() != '-')) name += kept;
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  // A service's name begins with a letter.
  if (name.empty() || (name.front() >= '0' && name.front() <= '9'))
    name.insert(0, name.empty() ? "job" : "job-");
  if (name == text && name.size() <= limit) return name;
  const std::string sum = fmt::format("-{:08x}", crc32c(std::as_bytes(std::span(text.data(), text.size()))));
  name.resize(std::min(name.size(), limit - sum.size()));
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name + sum;
}

bool is_printable(std::string_view text) {
  return std::none_of(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

}  // namespace llmtrain
