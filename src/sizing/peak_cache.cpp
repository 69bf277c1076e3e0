#include "llmtrain/sizing/peak_cache.hpp"

#include <cmath>

#include <nlohmann/json.hpp>

#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxBytes = 1 << 20;

Json key_json(const PeakKey& key) {
  return {{"host", key.host},
          {"cpu", key.cpu},
          {"dtype", std::string(to_string(key.dtype))},
          {"threads", key.threads}};
}

bool has_key(const Json& entry, const Json& key) {
  if (!entry.is_object()) return false;
  for (const auto& item : key.items())
    if (!entry.contains(item.key()) || entry.at(item.key()) != item.value()) return false;
  return true;
}

// The list of entries; empty when the file is missing or is not what store_peak writes.
Json read_entries(FileSystem& files, const std::string& path) {
  const auto text = read_file(files, path, kMaxBytes);
  if (!text) return Json::array();
  const Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains("peaks") || !json.at("peaks").is_array()) return Json::array();
  return json.at("peaks");
}

}  // namespace

std::optional<double> load_peak(FileSystem& files, const std::string& path, const PeakKey& key) {
  const Json wanted = key_json(key);
  for (const Json& entry : read_entries(files, path)) {
    if (!has_key(entry, wanted)) continue;
    const auto value = entry.find("flops_per_second");
    if (value == entry.end() || !value->is_number()) return std::nullopt;
    const double peak = value->get<double>();
    return peak > 0 ? std::optional(peak) : std::nullopt;
  }
  return std::nullopt;
}

Status store_peak(FileSystem& files, const std::string& path, const PeakKey& key, double flops_per_second) {
  if (!std::isfinite(flops_per_second) || flops_per_second <= 0)
    return Error{ErrorCode::kInternal, "a measured peak must be a positive number of FLOP/s", ""};
  Json fresh = key_json(key);
  Json entries = Json::array();
  for (const Json& entry : read_entries(files, path))
    if (!has_key(entry, fresh)) entries.push_back(entry);
  fresh["flops_per_second"] = flops_per_second;
  entries.push_back(std::move(fresh));
  const Json json = {{"peaks", std::move(entries)}};
  return write_file_durably(files, path, json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace llmtrain
