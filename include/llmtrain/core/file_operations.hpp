#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "llmtrain/core/filesystem.hpp"

// Small compositions of FileSystem's verbs that more than one module needs.
namespace llmtrain {

// `directory/name`, without doubling a slash.
std::string join_path(std::string_view directory, std::string_view name);
// The directory that holds `path`; "." for a bare name.
std::string parent_path(std::string_view path);
// The last component: "b" for "a/b" and "a/b/".
std::string base_name(std::string_view path);
// True for a name that stays inside the directory it is joined to: not empty, no separator, not "." or "..".
bool is_bare_name(std::string_view name);

// The whole file; an error when it holds more than `max_bytes`.
Result<std::string> read_file(FileSystem& files, const std::string& path, std::uint64_t max_bytes);

// Makes `path` and its missing parents, and makes each new entry durable.
Status make_directories(FileSystem& files, const std::string& path);

// Writes beside `path`, syncs, renames over it and syncs the directory: a reader sees the old file or the new
// one.
Status write_file_durably(FileSystem& files, const std::string& path, std::string_view bytes);

// Removes a file or a directory with all it holds; symbolic links are removed, not followed. Missing is fine.
Status remove_tree(FileSystem& files, const std::string& path);

}  // namespace llmtrain
