#include <algorithm>
#include <charconv>
#include <optional>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/report/run_history.hpp"

namespace llmtrain {
namespace {

constexpr std::uint64_t kMaxIncidentBytes = 16 << 20;  // thousands of black boxes

std::optional<int> number_of(std::string_view name) {
  constexpr std::string_view kPrefix = "incident-";
  constexpr std::string_view kSuffix = ".json";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
      name.size() <= kPrefix.size() + kSuffix.size())
    return std::nullopt;
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (error != std::errc() || end != name.data() + name.size() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::vector<IncidentRecord> read_incidents(FileSystem& files,
                                           const RunDir& run,
                                           std::size_t most,
                                           std::int64_t& bad) {
  std::vector<IncidentRecord> incidents;
  const auto entries = files.list(run.incidents().string());
  if (!entries) return incidents;
  std::vector<int> numbers;
  for (const DirectoryEntry& entry : *entries)
    if (const auto number = number_of(entry.name)) numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  if (numbers.size() > most)
    numbers.erase(numbers.begin(), numbers.end() - static_cast<std::ptrdiff_t>(most));
  for (const int number : numbers) {
    const auto text = read_file(files, run.incident(number).string(), kMaxIncidentBytes);
    auto incident = text ? incident_record(*text) : std::nullopt;
    if (!incident) {
      ++bad;
      continue;
    }
    incident->number = number;
    incidents.push_back(std::move(*incident));
  }
  return incidents;
}

}  // namespace llmtrain
