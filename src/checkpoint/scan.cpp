#include "llmtrain/checkpoint/scan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

KnownManifest known_of(const CheckpointEntry& entry, const Manifest& manifest) {
  KnownManifest known{.entry = entry, .files = {}};
  for (const FileRecord& record : manifest.files)
    known.files.push_back({.name = record.name, .bytes = record.bytes});
  return known;
}

// What the manifest says; a problem when there is none that can be read.
KnownManifest read_manifest(FileSystem& files, CheckpointEntry entry) {
  const auto reader = CheckpointReader::open(files, entry.path);
  if (!reader) {
    const bool missing = reader.error().code == ErrorCode::kNotFound;
    entry.problem = missing ? fmt::format("{} is missing", kManifestName) : to_string(reader.error());
    return {.entry = std::move(entry), .files = {}};
  }
  const TrainState& state = reader->state();
  entry.readable = true;
  entry.epoch = state.epoch;
  entry.resumed_from_step = state.resumed_from_step;
  entry.saved_at = state.saved_at;
  entry.bytes = reader->manifest().total_bytes();
  entry.num_tensors = reader->tensors().size();
  if (state.step != entry.step)
    entry.problem =
        fmt::format("the directory says step {} and its manifest step {}", entry.step, state.step);
  return known_of(entry, reader->manifest());
}

CheckpointEntry describe(FileSystem& files,
                         const std::string& checkpoints_dir,
                         const std::string& name,
                         const StepName& parsed,
                         KnownManifests* known) {
  const auto remembered = known != nullptr ? known->find(name) : KnownManifests::iterator();
  const bool is_known = known != nullptr && remembered != known->end();
  KnownManifest found = is_known ? remembered->second
                                 : read_manifest(files,
                                                 {.name = name,
                                                  .path = join_path(checkpoints_dir, name),
                                                  .step = parsed.step,
                                                  .epoch = parsed.epoch.value_or(0)});
  CheckpointEntry& entry = found.entry;
  if (!entry.usable()) return entry;
  const VerifyReport report = is_known ? verify_sizes(files, entry.path, found.files)
                                       : verify_checkpoint(files, entry.path, VerifyDepth::kSizes);
  if (known != nullptr && !is_known && report.intact()) known->emplace(name, found);
  if (!report.intact()) entry.problem = to_string(report.damages.front());
  return entry;
}

// A manifest that cannot be read hides its epoch. The step before it in the directory tells it well enough to
// put the entry where it is missed, so that falling back over it is reported.
void guess_epochs(std::vector<CheckpointEntry>& entries) {
  for (CheckpointEntry& entry : entries) {
    if (entry.readable || entry.epoch != 0) continue;
    const CheckpointEntry* before = nullptr;
    for (const CheckpointEntry& other : entries)
      if (other.readable && other.step < entry.step &&
          (!before || std::tie(other.step, other.epoch) > std::tie(before->step, before->epoch)))
        before = &other;
    if (before) entry.epoch = before->epoch;
  }
}

// Newest first. Everything that a later epoch did not build on is off the accepted history.
void order_and_mark(std::vector<CheckpointEntry>& entries) {
  guess_epochs(entries);
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::tie(a.epoch, a.step, a.name) > std::tie(b.epoch, b.step, b.name);
  });
  std::int64_t limit = INT64_MAX;  // of the steps that the current epoch may offer
  std::int64_t next_limit = INT64_MAX;
  std::int64_t epoch = INT64_MAX;
  for (CheckpointEntry& entry : entries) {
    if (entry.epoch != epoch) limit = next_limit;
    epoch = entry.epoch;
    entry.accepted = entry.step <= limit;
    if (entry.accepted && entry.readable) next_limit = std::min(next_limit, entry.resumed_from_step);
  }
}

std::string listing(const std::vector<CheckpointEntry>& entries) {
  std::set<std::int64_t> steps;
  for (const CheckpointEntry& entry : entries)
    if (entry.usable()) steps.insert(entry.step);
  return steps.empty() ? "there is none" : fmt::format("there are steps {}", fmt::join(steps, ", "));
}

}  // namespace

Result<std::vector<CheckpointEntry>> list_checkpoints(FileSystem& files,
                                                      const std::string& checkpoints_dir,
                                                      KnownManifests* known) {
  std::vector<CheckpointEntry> entries;
  LLMTRAIN_ASSIGN(info, files.info(checkpoints_dir));
  if (!info) return entries;
  LLMTRAIN_ASSIGN(names, files.list(checkpoints_dir));
  for (const DirectoryEntry& entry : names)
    if (const auto parsed = parse_step_name(entry.name))
      entries.push_back(describe(files, checkpoints_dir, entry.name, *parsed, known));
  order_and_mark(entries);
  return entries;
}

Result<Selection> find_newest(FileSystem& files,
                              const std::string& checkpoints_dir,
                              VerifyDepth depth,
                              std::int64_t max_step) {
  LLMTRAIN_ASSIGN(entries, list_checkpoints(files, checkpoints_dir));
  Selection selection;
  for (const CheckpointEntry& entry : entries) {
    if (!entry.accepted || (max_step >= 0 && entry.step > max_step)) continue;
    std::string problem = entry.problem;
    if (problem.empty() && depth == VerifyDepth::kFull) {
      const VerifyReport report = verify_checkpoint(files, entry.path, depth);
      if (!report.intact()) problem = to_string(report.damages.front());
    }
    if (problem.empty()) {
      selection.chosen = entry;
      return selection;
    }
    selection.rejected.push_back({entry.path, std::move(problem)});
  }
  return selection;
}

Result<CheckpointEntry> find_step(FileSystem& files, const std::string& checkpoints_dir, std::int64_t step) {
  LLMTRAIN_ASSIGN(entries, list_checkpoints(files, checkpoints_dir));
  std::string problem;
  for (const CheckpointEntry& entry : entries) {
    if (entry.step != step) continue;
    if (entry.usable()) return entry;
    problem = fmt::format("{} cannot be used: {}", entry.path, entry.problem);
  }
  if (problem.empty()) problem = fmt::format("{} holds no checkpoint of step {}", checkpoints_dir, step);
  return Error{ErrorCode::kNoCheckpoint, problem, listing(entries)};
}

Result<CheckpointPath> resolve_checkpoint_path(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(info, files.info(path));
  if (!info)
    return Error{ErrorCode::kUsage,
                 fmt::format("{} does not exist", path),
                 "give a run directory or a step directory"};
  if (info->kind != FileKind::kDirectory)
    return Error{ErrorCode::kUsage,
                 fmt::format("{} is not a directory", path),
                 "give a run directory or a step directory"};
  LLMTRAIN_ASSIGN(manifest, files.info(join_path(path, kManifestName)));
  if (manifest || parse_step_name(base_name(path))) return CheckpointPath{true, path};
  const std::string inside = join_path(path, "checkpoints");
  LLMTRAIN_ASSIGN(checkpoints, files.info(inside));
  if (checkpoints && checkpoints->kind == FileKind::kDirectory) return CheckpointPath{false, inside};
  LLMTRAIN_ASSIGN(entries, files.list(path));
  for (const DirectoryEntry& entry : entries)
    if (parse_step_name(entry.name)) return CheckpointPath{false, path};
  return Error{ErrorCode::kNoCheckpoint,
               fmt::format("{} holds no checkpoints", path),
               "give a run directory or a step directory"};
}

Result<std::string> resolve_step_directory(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(found, resolve_checkpoint_path(files, path));
  if (found.is_step) return found.directory;
  LLMTRAIN_ASSIGN(selection, find_newest(files, found.directory, VerifyDepth::kSizes));
  if (selection.chosen) return selection.chosen->path;
  if (selection.rejected.empty())
    return Error{ErrorCode::kNoCheckpoint, found.directory + " holds no committed checkpoint", ""};
  return Error{ErrorCode::kNoCheckpoint,
               fmt::format("{} holds no usable checkpoint; {}: {}",
                           found.directory,
                           selection.rejected.front().path,
                           selection.rejected.front().reason),
               ""};
}

}  // namespace llmtrain
