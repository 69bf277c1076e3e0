#pragma once

#include <optional>
#include <string>

#include "llmtrain/core/dtype.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/core/result.hpp"

// The measured peak of a host, kept in the run directory so that it is measured once and not at a restart.
//
// It only remembers; the measuring is done elsewhere. What cannot be read counts as not remembered.
namespace llmtrain {

struct PeakKey {
  std::string host;
  std::string cpu;  // instruction set that the kernels used: another one has another peak
  DType dtype = DType::kFp32;
  int threads = 1;
};

// FLOP/s of one rank with that key; absent when it was not measured or the file is damaged.
std::optional<double> load_peak(FileSystem& files, const std::string& path, const PeakKey& key);

// Adds or replaces the entry of `key` in the JSON file at `path`; the other entries stay.
Status store_peak(FileSystem& files, const std::string& path, const PeakKey& key, double flops_per_second);

}  // namespace llmtrain
