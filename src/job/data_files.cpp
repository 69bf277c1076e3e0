#include "data_files.hpp"

#include <filesystem>

#include <fmt/format.h>

namespace llmtrain {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

void report(Rules& rules, MissingData policy, const std::string& field, const std::string& message) {
  if (policy == MissingData::kRefuse) {
    rules.error(field, message);
  } else {
    rules.warning(field, message);
  }
}

}  // namespace

void check_data_files(Rules& rules, MissingData policy) {
  if (policy == MissingData::kIgnore) return;
  const DataSpec& data = rules.spec.data;
  const std::pair<const char*, const std::vector<DataSourceSpec>*> lists[] = {{"data.train", &data.train},
                                                                              {"data.valid", &data.valid}};
  for (const auto& [field, sources] : lists)
    for (std::size_t i = 0; i < sources->size(); ++i) {
      const std::string& path = (*sources)[i].path;
      if (path.empty() || path == "synthetic" || exists(path) ||
          (exists(path + ".idx") && exists(path + ".bin")))
        continue;
      report(rules,
             policy,
             fmt::format("{}[{}].path", field, i),
             fmt::format(
                 "= {}: no such directory, and no {}.idx with {}.bin; `llmtrain data prepare` makes them",
                 path,
                 path,
                 path));
    }
  const std::string& tokenizer = data.tokenizer;
  if (!tokenizer.empty() && tokenizer != "bytes" && !exists(tokenizer))
    report(rules,
           policy,
           "data.tokenizer",
           fmt::format(
               "= {}: no such file or directory; allowed: a tokenizer.json, a directory with one, or bytes",
               tokenizer));
}

}  // namespace llmtrain
