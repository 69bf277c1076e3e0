#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/data/indexed_dataset.hpp"

namespace fs = std::filesystem;

namespace llmtrain {
namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);  // follows symlinks
}

Result<DatasetPaths> only_pair_in(const std::string& directory) {
  std::vector<std::string> prefixes;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const fs::path& file = it->path();
    if (file.extension() == ".idx" && file.filename().string().front() != '.') {
      prefixes.push_back((file.parent_path() / file.stem()).string());
    }
  }
  if (error) {
    return Error{ErrorCode::kData,
                 fmt::format("{}: cannot list the directory: {}", directory, error.message()),
                 "check its permissions"};
  }
  if (prefixes.size() == 1) return DatasetPaths{prefixes.front()};
  if (prefixes.empty()) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{}: the directory holds no .idx file", directory),
                 "prepare data into it with `llmtrain data prepare`, or name another path"};
  }
  return Error{
      ErrorCode::kUsage,
      fmt::format(
          "{}: the directory holds {} .idx files; a source is exactly one pair", directory, prefixes.size()),
      fmt::format("name one of them, such as {}", prefixes.front())};
}

}  // namespace

Result<DatasetPaths> find_dataset(const std::string& path) {
  std::error_code ignored;
  DatasetPaths paths{path};
  const std::string extension = fs::path(path).extension().string();
  const bool names_half = extension == ".idx" || extension == ".bin";
  if (fs::is_directory(path, ignored)) {
    LLMTRAIN_ASSIGN(found, only_pair_in(path));
    paths = std::move(found);
  } else if (names_half && !is_file(path + ".idx")) {
    paths.prefix = path.substr(0, path.size() - extension.size());
  }
  const bool has_idx = is_file(paths.idx());
  const bool has_bin = is_file(paths.bin());
  if (has_idx && has_bin) return paths;
  if (has_idx || has_bin) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("{} is there, but not {}",
                             has_idx ? paths.idx() : paths.bin(),
                             has_idx ? paths.bin() : paths.idx()),
                 "a token file is a pair of both; copy the other half, or prepare the data again"};
  }
  return Error{ErrorCode::kNotFound,
               fmt::format("{}: no token files there (looked for {} and {})", path, paths.idx(), paths.bin()),
               "prepare data with `llmtrain data prepare`, or use `path: synthetic`"};
}

}  // namespace llmtrain
