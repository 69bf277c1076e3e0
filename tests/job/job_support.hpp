#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "llmtrain/job/load_job.hpp"

#include "tests/support/temporary_directory.hpp"

namespace llmtrain::test {

// A directory, with a space in its path, that ends with the test.
class ScratchDir {
 public:
  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }

 private:
  TemporaryDirectory directory_;
  std::filesystem::path path_ = std::filesystem::path(directory_.path()) / "my jobs";
};

// The smallest job, as a list of sections that a test replaces or adds to with --set.
inline constexpr const char* kMinimal =
    "version: 1\n"
    "model: {vocab_size: 32, hidden_size: 16, num_layers: 2, num_heads: 4}\n"
    "data: {seq_length: 8, train: [{path: synthetic}]}\n"
    "batch: {micro_batch_size: 2}\n"
    "train: {duration: 100 steps}\n";

inline std::string messages_of(const JobReport& report) {
  std::string out;
  for (const Diagnostic& diagnostic : report.diagnostics) out += diagnostic.text() + "\n";
  return out;
}

// Loads `yaml` as <scratch>/job.yaml; messages then begin with that path.
inline JobReport check(const std::string& yaml,
                       std::vector<std::string> overrides = {},
                       JobSource source = {}) {
  const ScratchDir scratch;
  source.files = {scratch.write("job.yaml", yaml)};
  source.overrides = std::move(overrides);
  return check_job(source);
}

}  // namespace llmtrain::test
