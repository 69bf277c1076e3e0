#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "llmtrain/checkpoint/names.hpp"
#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/core/file_operations.hpp"

#include "checksummed_file.hpp"

namespace llmtrain {
namespace {

Result<FileRecord> write_extra(FileSystem& files, const std::string& directory, const ExtraFile& extra) {
  if (!is_bare_name(extra.name) || extra.name == kManifestName)
    return Error{
        ErrorCode::kInternal, fmt::format("\"{}\" cannot be a file of a checkpoint", extra.name), ""};
  LLMTRAIN_ASSIGN(file, ChecksummedFile::create(files, directory, extra.name));
  LLMTRAIN_TRY(file.append(std::as_bytes(std::span(extra.contents))));
  return file.finish();
}

// What the ranks reported must be what lies there; files of an earlier, failed attempt at this save go.
Status check_directory(FileSystem& files, const std::string& directory, const Manifest& manifest) {
  std::set<std::string> listed;
  for (const FileRecord& record : manifest.files) {
    if (!listed.insert(record.name).second)
      return Error{ErrorCode::kInternal, fmt::format("two ranks reported the file {}", record.name), ""};
    const std::string path = join_path(directory, record.name);
    LLMTRAIN_ASSIGN(info, files.info(path));
    if (!info || info->bytes != record.bytes)
      return Error{ErrorCode::kStorage,
                   fmt::format("{} should have {} bytes and {}",
                               path,
                               record.bytes,
                               info ? fmt::format("has {}", info->bytes) : "does not exist"),
                   "all ranks must see the same run directory: is it on a shared file system?"};
  }
  LLMTRAIN_ASSIGN(entries, files.list(directory));
  for (const DirectoryEntry& entry : entries)
    if (!listed.contains(entry.name)) LLMTRAIN_TRY(remove_tree(files, join_path(directory, entry.name)));
  return ok_status();
}

Status check_tensors(const Manifest& manifest, const std::vector<TensorInfo>& expected) {
  LLMTRAIN_ASSIGN(found, manifest.tensors());
  const std::vector<std::string> mismatches =
      expected.empty() ? std::vector<std::string>() : compare_tensors(found, expected);
  if (mismatches.empty()) return ok_status();
  return Error{ErrorCode::kInternal,
               fmt::format("step {} is not committed, its tensors are not the model's: {}",
                           manifest.state.step,
                           fmt::join(mismatches, "; ")),
               ""};
}

Status write_manifest(FileSystem& files, const std::string& directory, const Manifest& manifest) {
  const std::string text = encode_manifest(manifest);
  LLMTRAIN_ASSIGN(file, files.create(join_path(directory, kManifestName)));
  LLMTRAIN_TRY(file->append(std::as_bytes(std::span(text))));
  LLMTRAIN_TRY(file->sync());
  LLMTRAIN_TRY(file->close());
  return files.sync_directory(directory);
}

std::string temporary_directory(const SaveTarget& target) {
  return join_path(target.checkpoints_dir, temporary_directory_name(target.step, target.epoch));
}

// The plain name, or the one with the epoch when an older history has taken it.
Result<std::string> rename_into_place(FileSystem& files,
                                      const std::string& temporary,
                                      const SaveTarget& target) {
  for (const std::string& name :
       {step_directory_name(target.step), step_directory_name(target.step, target.epoch)}) {
    LLMTRAIN_ASSIGN(done, files.rename_without_replacing(temporary, join_path(target.checkpoints_dir, name)));
    if (done) return name;
  }
  return Error{ErrorCode::kStorage,
               fmt::format("step {} of epoch {} is already committed in {}",
                           target.step,
                           target.epoch,
                           target.checkpoints_dir),
               "nothing committed is ever overwritten"};
}

}  // namespace

Result<Committed> commit(FileSystem& files, const SaveTarget& target, CommitRequest request) {
  const std::string directory = temporary_directory(target);
  Manifest manifest{std::move(request.state), std::move(request.records)};
  manifest.state.step = target.step;
  manifest.state.epoch = target.epoch;
  for (const ExtraFile& extra : request.extra_files) {
    LLMTRAIN_ASSIGN(record, write_extra(files, directory, extra));
    manifest.files.push_back(std::move(record));
  }
  std::sort(manifest.files.begin(), manifest.files.end(), [](const auto& a, const auto& b) {
    return a.name < b.name;
  });
  LLMTRAIN_TRY(check_directory(files, directory, manifest));
  LLMTRAIN_TRY(check_tensors(manifest, request.expected));
  const auto pass = [&request](std::string_view arrow) {
    if (request.on_arrow) request.on_arrow(arrow);
  };
  pass("commit_manifest");
  LLMTRAIN_TRY(write_manifest(files, directory, manifest));
  pass("commit_rename");
  if (request.may_commit) LLMTRAIN_TRY(request.may_commit());

  LLMTRAIN_ASSIGN(name, rename_into_place(files, directory, target));
  pass("commit_renamed");
  LLMTRAIN_TRY(files.sync_directory(target.checkpoints_dir));
  return Committed{name, join_path(target.checkpoints_dir, name), manifest.total_bytes()};
}

Status discard(FileSystem& files, const SaveTarget& target) {
  const std::string directory = temporary_directory(target);
  LLMTRAIN_ASSIGN(info, files.info(directory));
  return info ? remove_tree(files, directory) : ok_status();
}

Result<std::vector<std::string>> remove_leftovers(FileSystem& files,
                                                  const std::string& checkpoints_dir,
                                                  std::int64_t epoch) {
  std::vector<std::string> removed;
  LLMTRAIN_ASSIGN(info, files.info(checkpoints_dir));
  if (!info) return removed;
  LLMTRAIN_ASSIGN(entries, files.list(checkpoints_dir));
  for (const DirectoryEntry& entry : entries) {
    if (entry.kind != FileKind::kDirectory) continue;
    const auto unfinished = parse_temporary_name(entry.name);
    if (!(unfinished && *unfinished->epoch <= epoch) && !is_trash_name(entry.name)) continue;
    LLMTRAIN_TRY(remove_tree(files, join_path(checkpoints_dir, entry.name)));
    removed.push_back(entry.name);
  }
  return removed;
}

}  // namespace llmtrain
