#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "llmtrain/monitor/events.hpp"

// Runs whole jobs inside one test process: every rank is a thread that runs the real worker from a real
// request, over a real shared region, socket and black box; only the agent is missing.
namespace llmtrain::test {

struct JobOptions {
  std::string yaml;                    // the job; run.dir and processes are added
  std::vector<std::string> overrides;  // --set
  int processes = 1;
  std::string run_dir;
  std::string resume_path;  // step directory
  int incarnation = 0;
  bool stop_after_one_step = false;  // the agent's stop request stands from the start
};

struct JobResult {
  std::vector<int> codes;             // of every rank
  std::vector<Event> events;          // of every rank, each rank's in order
  std::vector<StepReport> steps;      // of rank 0
  std::vector<std::string> problems;  // texts of error notes
};

JobResult run_job(const JobOptions& options);

// Tensors of a step directory as doubles, by name.
std::map<std::string, std::vector<double>> read_tensors(const std::string& step_dir);

// Largest difference of two checkpoints: max |a - b| / max(max |a|, floor) over the tensors whose names
// begin with `prefix` ("" = weights only when it is "model." or "lm_head").
double largest_difference(const std::map<std::string, std::vector<double>>& a,
                          const std::map<std::string, std::vector<double>>& b,
                          double floor);

// A directory of its own for a test; removed with everything in it.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace llmtrain::test
