#include "llmtrain/job/run_dir.hpp"

#include <fmt/format.h>

namespace llmtrain {

std::filesystem::path RunDir::checkpoint(std::int64_t step) const {
  return checkpoints() / fmt::format("step-{:08d}", step);
}

bool is_run_dir(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(RunDir(path).source_spec(), ignored);
}

}  // namespace llmtrain
