#include "llmtrain/launch/missed_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/logs/log_tail.hpp"
#include "llmtrain/monitor/recent_steps.hpp"

namespace llmtrain {
namespace {

using Place = std::pair<int, std::int64_t>;  // incarnation and step

// The last line may be torn where the leader's host was lost.
Place newest_row(const std::string& path) {
  const std::vector<std::string> lines = last_lines(path, 2);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto row = nlohmann::json::parse(*line, nullptr, false);
    if (!row.is_object() || !row.contains("incarnation") || !row.contains("step")) continue;
    if (row["incarnation"].is_number_integer() && row["step"].is_number_integer())
      return {row["incarnation"].get<int>(), row["step"].get<std::int64_t>()};
  }
  return {-1, -1};
}

}  // namespace

Result<std::vector<Event>> find_missed_steps(FileSystem& files,
                                             const std::string& step_dir,
                                             const std::string& metrics_path) {
  LLMTRAIN_ASSIGN(reader, CheckpointReader::open(files, step_dir));
  const auto& records = reader.manifest().files;
  if (std::none_of(
          records.begin(), records.end(), [](const FileRecord& f) { return f.name == RecentSteps::kFile; }))
    return std::vector<Event>();
  LLMTRAIN_ASSIGN(text, reader.read_extra(RecentSteps::kFile, RecentSteps::kMaxBytes));
  LLMTRAIN_ASSIGN(steps, read_recent_steps(text));
  const Place newest = newest_row(metrics_path);
  std::erase_if(steps, [&](const Event& event) {
    return Place{event.incarnation, std::get<StepReport>(event.body).step} <= newest;
  });
  return steps;
}

}  // namespace llmtrain
