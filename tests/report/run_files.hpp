#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/report/run_history.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

namespace llmtrain::test {

// A run directory made by hand, line by line.
class RunFiles {
 public:
  const std::string& path() const { return directory_.path(); }
  RunDir run() const { return RunDir(path()); }

  void put(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = directory_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  void step(std::int64_t step, int incarnation, double time, double ms = 1000, double loss = 2) {
    metrics_ +=
        fmt::format(R"({{"step":{},"loss":{},"tok_s":100,"step_ms":{},"incarnation":{},"time":{:.3f}}})"
                    "\n",
                    step,
                    loss,
                    ms,
                    incarnation,
                    time);
    put("metrics.jsonl", metrics_);
  }
  void event(const std::string& name, int incarnation, double time, const std::string& more = "") {
    events_ += fmt::format(R"({{"time":{:.3f},"event":"{}","incarnation":{}{}{}}})"
                           "\n",
                           time,
                           name,
                           incarnation,
                           more.empty() ? "" : ",",
                           more);
    put("events.jsonl", events_);
  }
  void started(int incarnation, double time, std::int64_t first_step) {
    event("run_started",
          incarnation,
          time,
          fmt::format(R"("run":"r","world_size":2,"first_step":{},"total_steps":20,"layout":"dp2")",
                      first_step));
  }

  RunHistory history(const HistoryOptions& options = {}) const {
    const auto files = make_posix_filesystem();
    const auto history = read_history(*files, run(), options);
    REQUIRE(history.ok());
    return *history;
  }

 private:
  TemporaryDirectory directory_;
  std::string metrics_;
  std::string events_;
};

}  // namespace llmtrain::test
