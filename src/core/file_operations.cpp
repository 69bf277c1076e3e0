#include "llmtrain/core/file_operations.hpp"

#include <fmt/format.h>

namespace llmtrain {
namespace {

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

}  // namespace

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return directory.back() == '/' ? fmt::format("{}{}", directory, name)
                                 : fmt::format("{}/{}", directory, name);
}

std::string parent_path(std::string_view path) {
  path = without_trailing_slashes(path);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(without_trailing_slashes(path.substr(0, slash)));
}

std::string base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_bare_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\\\0", 3);
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

Result<std::string> read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes) {
  LLMTRAIN_ASSIGN(file, files.open(path));
  LLMTRAIN_ASSIGN(size, file->size());
  if (size > max_bytes)
    return Error{ErrorCode::kCorrupt,
                 fmt::format("{} has {} bytes; at most {} are allowed", path, size, max_bytes),
                 ""};
  std::string bytes(size, '\0');
  LLMTRAIN_ASSIGN(got, file->read_at(0, std::as_writable_bytes(std::span(bytes))));
  bytes.resize(got);
  return bytes;
}

Status make_directories(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(info, files.info(path));
  if (info && info->kind == FileKind::kDirectory) return ok_status();
  if (info)
    return Error{
        ErrorCode::kStorage, path + " is in the way: a directory is needed there", "remove or rename it"};
  const std::string parent = parent_path(path);
  LLMTRAIN_TRY(make_directories(files, parent));
  LLMTRAIN_TRY(files.make_directory(path));
  return files.sync_directory(parent);
}

Status write_file_durably(FileSystem& files, const std::string& path, std::string_view bytes) {
  const std::string parent = parent_path(path);
  const std::string temporary = join_path(parent, "." + base_name(path) + ".tmp");
  LLMTRAIN_ASSIGN(file, files.create(temporary));
  LLMTRAIN_TRY(file->append(std::as_bytes(std::span(bytes))));
  LLMTRAIN_TRY(file->sync());
  LLMTRAIN_TRY(file->close());
  LLMTRAIN_TRY(files.replace(temporary, path));
  return files.sync_directory(parent);
}

Status remove_tree(FileSystem& files, const std::string& path) {
  LLMTRAIN_ASSIGN(info, files.info(path));
  if (!info) return ok_status();
  if (info->kind != FileKind::kDirectory) return files.remove_file(path);
  LLMTRAIN_ASSIGN(entries, files.list(path));
  for (const DirectoryEntry& entry : entries) {
    const std::string child = join_path(path, entry.name);
    // A link is removed here by its own kind, so that its target is never entered.
    LLMTRAIN_TRY(entry.kind == FileKind::kDirectory ? remove_tree(files, child) : files.remove_file(child));
  }
  return files.remove_directory(path);
}

}  // namespace llmtrain
