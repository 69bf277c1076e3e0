#include "llmtrain/train/shard_report.hpp"

#include <charconv>

#include <fmt/format.h>

namespace llmtrain {
namespace {

// 'E', the error's code, a line feed, message, a NUL, hint. Anything else is a success.
std::string encode_error(const Error& error) {
  std::string text = fmt::format("E{}\n{}", static_cast<int>(error.code), error.message);
  text.push_back('\0');
  return text.append(error.hint);
}

Error decode_error(const std::string& text) {
  const std::size_t line = text.find('\n');
  const std::size_t nul = text.find('\0');
  if (line == std::string::npos || nul == std::string::npos || nul < line)
    return {ErrorCode::kInternal, "a rank sent an unreadable save report", {}};
  int code = static_cast<int>(ErrorCode::kInternal);
  std::from_chars(text.data() + 1, text.data() + line, code);
  return {static_cast<ErrorCode>(code), text.substr(line + 1, nul - line - 1), text.substr(nul + 1)};
}

bool is_error(const std::string& text) {
  return !text.empty() && text.front() == 'E';
}

}  // namespace

std::string encode_shard_report(const Result<std::vector<FileRecord>>& written) {
  return written ? encode_file_records(*written) : encode_error(written.error());
}

Result<std::vector<FileRecord>> decode_shard_report(const std::string& text) {
  if (is_error(text)) return decode_error(text);
  return decode_file_records(text, "the save report of a rank");
}

std::string encode_status(const Status& status) {
  return status ? "ok" : encode_error(status.error());
}

Status decode_status(const std::string& text) {
  if (is_error(text)) return decode_error(text);
  return ok_status();
}

}  // namespace llmtrain
