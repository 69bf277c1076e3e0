#include "llmtrain/launch/restart_history.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = 1 << 20;
constexpr int kVersion = 1;

Error corrupt(const std::string& path) {
  return {ErrorCode::kCorrupt,
          fmt::format("{} is not what a leader writes", path),
          "the restarts before are not counted; remove it"};
}

}  // namespace

Status write_restart_history(FileSystem& files, const std::string& path, const RestartHistory& history) {
  Json object = {{"version", kVersion}, {"ages_ms", Json::array()}, {"best_step", nullptr}};
  for (const Milliseconds age : history.ages) object["ages_ms"].push_back(age.count());
  if (history.best_step) object["best_step"] = *history.best_step;
  object["without_progress"] = history.without_progress;
  return write_file_durably(files, path, object.dump() + "\n");
}

Result<RestartHistory> read_restart_history(FileSystem& files, const std::string& path) {
  auto text = read_file(files, path, kMaxBytes);
  if (!text) {
    if (text.error().code == ErrorCode::kNotFound) return RestartHistory();
    return std::move(text).error();
  }
  const Json object = Json::parse(*text, nullptr, false);
  RestartHistory history;
  try {
    if (!object.is_object() || object.at("version").get<int>() != kVersion) return corrupt(path);
    for (const Json& age : object.at("ages_ms")) history.ages.emplace_back(age.get<std::int64_t>());
    if (!object.at("best_step").is_null()) history.best_step = object["best_step"].get<std::int64_t>();
    history.without_progress = object.at("without_progress").get<int>();
  } catch (const Json::exception&) {
    return corrupt(path);
  }
  return history;
}

}  // namespace llmtrain
