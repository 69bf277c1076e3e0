#include "llmtrain/launch/run_files.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/monitor/events.hpp"

namespace llmtrain {
namespace {

// More than the blocks that a full file system still has to give, and no more than a small quota allows.
constexpr std::size_t kProbeBytes = 32 * 1024;
constexpr std::uint64_t kTailBytes = 1 << 20;  // of the events: thousands of saves

std::optional<int> number_between(std::string_view name, std::string_view prefix, std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) || !name.ends_with(suffix))
    return std::nullopt;
  const std::string_view digits = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

Result<bool> exists(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(info, files.info(path));
  return info.has_value();
}

// The highest number in names of the form <prefix><number><suffix>; -1 = none, or no such directory.
Result<int> highest(FileSystem& files,
                    const std::string& directory,
                    std::string_view prefix,
                    std::string_view suffix) {
  LLMTRAIN_ASSIGN(there, exists(files, directory));
  if (!there) return -1;
  LLMTRAIN_ASSIGN(entries, files.list(directory));
  int result = -1;
  for (const DirectoryEntry& entry : entries)
    if (const auto number = number_between(entry.name, prefix, suffix)) result = std::max(result, *number);
  return result;
}

// The newest part of a file that only grows; empty when it cannot be read.
std::string tail_of(FileSystem& files, const std::string& path) {
  const auto info = files.info(path);
  if (!info || !*info) return {};
  const auto file = files.open(path);
  if (!file) return {};
  const std::uint64_t size = (*info)->bytes;
  std::string text(std::min<std::uint64_t>(size, kTailBytes), '\0');
  const auto got = (*file)->read_at(size - text.size(), std::as_writable_bytes(std::span(text)));
  text.resize(got ? *got : 0);
  return text;
}

}  // namespace

// Whatever the system answers, what is wrong is the place for the run: storage.
Status make_run_directory(FileSystem& files, const RunDir& run) {
  for (const auto& directory : {run.root(), run.control()}) {
    Status made = make_directories(files, directory.string());
    if (!made) return Error{ErrorCode::kStorage, made.error().message, "name another place with run.dir"};
  }
  return ok_status();
}

Status check_writable(FileSystem& files, const RunDir& run, const std::string& probe) {
  const std::string path = (run.control() / probe).string();
  const std::vector<std::byte> bytes(kProbeBytes, std::byte{0x55});
  const auto write = [&]() -> Status {
    LLMTRAIN_ASSIGN(file, files.create(path));
    LLMTRAIN_TRY(file->append(bytes));
    LLMTRAIN_TRY(file->sync());
    return file->close();
  };
  const Status written = write();
  const Status removed = files.remove_file(path);
  if (written && removed) return ok_status();
  const Error& cause = written ? removed.error() : written.error();
  return Error{ErrorCode::kStorage,
               "the run directory " + run.root().string() + " cannot be written: " + cause.message,
               "free some space, make it writable, or choose another run.dir"};
}

Result<bool> is_used(FileSystem& files, const RunDir& run) {
  for (const auto& path : {run.source_spec(), run.metrics()}) {
    LLMTRAIN_ASSIGN(there, exists(files, path.string()));
    if (there) return true;
  }
  LLMTRAIN_ASSIGN(there, exists(files, run.checkpoints().string()));
  if (!there) return false;
  LLMTRAIN_ASSIGN(entries, files.list(run.checkpoints().string()));
  return !entries.empty();
}

Result<int> next_incarnation(FileSystem& files, const RunDir& run) {
  LLMTRAIN_ASSIGN(spec, highest(files, run.root().string(), "spec-", ".yaml"));
  LLMTRAIN_ASSIGN(log, highest(files, (run.root() / "logs").string(), "", ""));
  return std::max(spec, log) + 1;
}

Result<int> next_incident(FileSystem& files, const RunDir& run) {
  LLMTRAIN_ASSIGN(newest, highest(files, run.incidents().string(), "incident-", ".json"));
  return newest + 1;
}

std::optional<Milliseconds> longest_save(FileSystem& files, const RunDir& run) {
  const std::string text = tail_of(files, run.events().string());
  std::optional<Milliseconds> longest;
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (line.find("checkpoint_saved") == std::string::npos) continue;
    const auto event = event_from_json(line);
    const auto* const saved = event ? std::get_if<CheckpointSaved>(&event->body) : nullptr;
    if (saved == nullptr) continue;
    const Milliseconds took{static_cast<std::int64_t>(std::clamp(saved->ms, 0.0, 1e9))};
    longest = std::max(longest.value_or(took), took);
  }
  return longest;
}

Status write_log_place(FileSystem& files, const RunDir& run, const std::optional<std::string>& directory) {
  const std::string path = run.log_place().string();
  if (directory) return write_file_durably(files, path, *directory + "\n");
  LLMTRAIN_ASSIGN(old, files.info(path));
  return old ? files.remove_file(path) : ok_status();
}

Status write_source_spec(FileSystem& files, const RunDir& run, const std::string& yaml) {
  return write_file_durably(files, run.source_spec().string(), yaml);
}

Status write_resolved_spec(FileSystem& files,
                           const RunDir& run,
                           int incarnation,
                           const std::string& yaml,
                           const std::string& asked_for) {
  LLMTRAIN_TRY(write_file_durably(files, run.resolved_spec(incarnation).string(), yaml));
  return write_file_durably(files, run.resolved_spec().string(), asked_for);
}

}  // namespace llmtrain
