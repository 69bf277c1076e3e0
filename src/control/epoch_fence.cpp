#include "llmtrain/control/epoch_fence.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

namespace llmtrain {
namespace {

constexpr std::string_view kPrefix = "epoch-";

std::optional<std::int64_t> parse_epoch(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::int64_t epoch = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), epoch);
  if (error != std::errc{} || end != name.data() + name.size() || epoch < 0) return std::nullopt;
  return epoch;
}

}  // namespace

Result<std::optional<std::int64_t>> newest_epoch(FileSystem& files, const std::string& control_dir) {
  std::optional<std::int64_t> newest;
  LLMTRAIN_ASSIGN(info, files.info(control_dir));
  if (!info) return newest;
  LLMTRAIN_ASSIGN(entries, files.list(control_dir));
  for (const DirectoryEntry& entry : entries)
    if (const auto epoch = parse_epoch(entry.name)) newest = std::max(newest.value_or(*epoch), *epoch);
  return newest;
}

Status check_not_fenced(FileSystem& files, const std::string& control_dir, std::int64_t own) {
  LLMTRAIN_ASSIGN(newest, newest_epoch(files, control_dir));
  if (!newest || *newest <= own) return ok_status();
  return Error{
      ErrorCode::kHeld,
      fmt::format("epoch {} of this job is over: {} says that epoch {} has begun, under another leader",
                  own,
                  control_dir,
                  *newest),
      "nothing is committed by this one; the other goes on"};
}

}  // namespace llmtrain
