#include "llmtrain/data/index_format.hpp"

#include <fmt/format.h>

namespace llmtrain {

int bytes_of(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8: return 1;
    case TokenType::kInt16:
    case TokenType::kUint16: return 2;
    case TokenType::kInt32: return 4;
    case TokenType::kInt64: return 8;
  }
  return 0;
}

std::string to_string(TokenType type) {
  switch (type) {
    case TokenType::kUint8: return "uint8";
    case TokenType::kInt8: return "int8";
    case TokenType::kInt16: return "int16";
    case TokenType::kInt32: return "int32";
    case TokenType::kInt64: return "int64";
    case TokenType::kUint16: return "uint16";
  }
  return "?";
}

Result<TokenType> index_format::token_type(std::uint8_t code, const std::string& path) {
  const bool integer = code >= 1 && code <= 8 && code != 6 && code != 7;
  if (integer) return static_cast<TokenType>(code);
  const char* found = code == 6 ? " (float64)" : code == 7 ? " (float32)" : "";
  return Error{
      ErrorCode::kData,
      fmt::format("{}: byte 17: type code {}{} cannot hold token ids; allowed are 1 uint8, 2 int8, 3 int16, "
                  "4 int32, 5 int64 and 8 uint16",
                  path,
                  code,
                  found),
      "the file is damaged or no token file; write it again with `llmtrain data prepare`"};
}

}  // namespace llmtrain
