#include "llmtrain/launch/job_digests.hpp"

#include <span>

#include <fmt/format.h>

#include "llmtrain/core/crc32c.hpp"
#include "llmtrain/core/file_operations.hpp"

namespace llmtrain {
namespace {

std::string digest(const std::string& bytes) {
  return fmt::format("{:08x}-{}", crc32c(std::as_bytes(std::span(bytes))), bytes.size());
}

std::string data_files(FileSystem& files, const std::vector<DataSourceSpec>& sources) {
  std::string text;
  for (const DataSourceSpec& source : sources)
    for (const char* ending : {"", ".bin", ".idx"}) {
      const auto info = files.info(source.path + ending);
      if (info && *info) text += fmt::format("{}{} {}\n", source.path, ending, (*info)->bytes);
    }
  return text;
}

}  // namespace

Result<JobDigests> make_job_digests(FileSystem& files,
                                    const std::string& executable,
                                    const std::string& resolved_yaml,
                                    const JobSpec& spec) {
  constexpr std::uint64_t kLargestProgram = std::uint64_t{1} << 30;
  LLMTRAIN_ASSIGN(program, read_file(files, executable, kLargestProgram));
  return JobDigests{digest(program),
                    digest(resolved_yaml),
                    digest(data_files(files, spec.data.train) + data_files(files, spec.data.valid))};
}

}  // namespace llmtrain
