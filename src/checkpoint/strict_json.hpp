#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "llmtrain/core/result.hpp"

// JSON from untrusted bytes: valid UTF-8, one object, bounded depth, no key twice, nothing behind it.
namespace llmtrain {

Result<nlohmann::json> parse_strict_json(std::string_view text, int max_depth, const std::string& origin);

// Reads fields of an object and remembers the first thing that was wrong.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string where);

  std::string text(const char* key);
  std::int64_t integer(const char* key, std::int64_t min, std::int64_t max);
  std::uint64_t natural(const char* key);
  std::vector<std::int64_t> integers(const char* key, std::size_t max_count);
  const nlohmann::json& object(const char* key);
  const nlohmann::json& array(const char* key, std::size_t max_count);

  void fail(std::string what);
  bool ok() const { return problem_.empty(); }
  Error error() const { return {ErrorCode::kCorrupt, where_ + ": " + problem_, ""}; }

 private:
  const nlohmann::json* find(const char* key, const char* wanted);
  const nlohmann::json* object_ = nullptr;
  nlohmann::json empty_object_ = nlohmann::json::object();  // what a missing field reads as
  nlohmann::json empty_array_ = nlohmann::json::array();
  std::string where_;
  std::string problem_;
};

}  // namespace llmtrain
