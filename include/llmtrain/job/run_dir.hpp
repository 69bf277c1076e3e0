#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

// The run directory as a contract: which file lies where. Path arithmetic only; nothing is touched.
namespace llmtrain {

class RunDir {
 public:
  explicit RunDir(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }

  std::filesystem::path source_spec() const { return root_ / "spec.source.yaml"; }
  std::filesystem::path resolved_spec() const { return root_ / "spec.yaml"; }  // of the newest incarnation
  std::filesystem::path resolved_spec(int incarnation) const {
    return root_ / ("spec-" + std::to_string(incarnation) + ".yaml");
  }

  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return root_ / "events.jsonl"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }

  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path checkpoint(std::int64_t step) const;  // step-<8 digits>

  std::filesystem::path logs(int incarnation, int node) const {
    return root_ / "logs" / std::to_string(incarnation) / ("node" + std::to_string(node));
  }
  // Names the directory that stands for logs/ since the newest launch; absent: logs/ itself.
  std::filesystem::path log_place() const { return control() / "log-dir"; }
  std::filesystem::path rank_stdout(int incarnation, int node, int rank) const {
    return logs(incarnation, node) / ("rank" + std::to_string(rank) + ".out");
  }
  std::filesystem::path rank_stderr(int incarnation, int node, int rank) const {
    return logs(incarnation, node) / ("rank" + std::to_string(rank) + ".err");
  }

  std::filesystem::path incidents() const { return root_ / "incidents"; }
  std::filesystem::path incident(int number) const {
    return incidents() / ("incident-" + std::to_string(number) + ".json");
  }

  std::filesystem::path control() const { return root_ / "control"; }
  std::filesystem::path token() const { return control() / "token"; }
  std::filesystem::path leader() const { return control() / "leader.json"; }
  std::filesystem::path lease() const { return control() / "lease"; }
  std::filesystem::path restarts() const { return control() / "restarts.json"; }
  std::filesystem::path status() const { return control() / "status.json"; }
  // Peak TFLOP/s measured on this host, kept over restarts (see MFU).
  std::filesystem::path measured_peak() const { return control() / "peak.json"; }

 private:
  std::filesystem::path root_;
};

// Whether `path` is a run directory: it holds a source spec. Commands that take RUN_DIR|JOB ask this.
bool is_run_dir(const std::filesystem::path& path);

}  // namespace llmtrain
