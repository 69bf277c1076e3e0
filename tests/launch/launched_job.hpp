#pragma once

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "llmtrain/launch/subprocess.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

// Runs the real executable with the engine that computes nothing, in a run directory of its own.
namespace llmtrain::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline std::string slurp(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::vector<Json> read_jsonl(const fs::path& path) {
  std::vector<Json> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

// Waits, without a limit of its own (the test has one), until the condition holds.
inline void until(const std::function<bool()>& holds) {
  while (!holds()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

// Not a zombie.
inline bool alive(pid_t pid) {
  const std::string text = slurp(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z' && text[name_end + 2] != 'X';
}

inline std::vector<pid_t> children_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{0}/task/{0}/children", pid));
  std::vector<pid_t> result;
  for (pid_t child; file >> child;) result.push_back(child);
  return result;
}

inline std::string comm_of(pid_t pid) {
  std::string name = slurp(fmt::format("/proc/{}/comm", pid));
  if (!name.empty()) name.pop_back();
  return name;
}

class LaunchedJob {
 public:
  LaunchedJob() {
    std::ofstream(directory_ / "job.yaml") << R"(version: 1
run: {name: t, device: cpu}
model: {family: llama, vocab_size: 64, hidden_size: 16, num_layers: 1, num_heads: 2, ffn_hidden_size: 32}
data: {seq_length: 16, train: [{path: synthetic}]}
parallelism: {dp: 2}
batch: {micro_batch_size: 1, gradient_accumulation_steps: 1}
optimizer: {lr: 1.0e-3}
train: {duration: 20 steps, compute_threads: 1}
checkpoint: {interval: 5 steps}
resilience: {stop_grace_s: 20}
)";
  }

  fs::path run_dir() const { return fs::path(directory_.path()) / "a run"; }
  std::string directory() const { return directory_.path(); }

  // What FAKE_ENGINE tells the engine.
  std::string script;
  std::vector<std::string> settings;  // --set of every command that takes the job

  // Starts `llmtrain launch` on the job; `more` are further arguments.
  void start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "launch", directory_ / "job.yaml", "--engine", LLMTRAIN_FAKE_ENGINE};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    arguments.insert(arguments.end(), {"--set", "run.dir=" + run_dir().string()});
    arguments.insert(arguments.end(), more.begin(), more.end());
    start_command(arguments);
  }
  void start_resume(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"resume", run_dir().string(), "--engine", LLMTRAIN_FAKE_ENGINE};
    arguments.insert(arguments.end(), more.begin(), more.end());
    start_command(arguments);
  }
  void start_command(const std::vector<std::string>& arguments) {
    SpawnOptions options;
    options.executable = LLMTRAIN_EXECUTABLE;
    options.arguments = {"llmtrain"};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    options.environment = {"PATH=/usr/bin:/bin", "FAKE_ENGINE=" + script};
    console_ = directory_ / fmt::format("console-{}", ++num_commands_);
    const UniqueFd out(open(console_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    options.stdout_fd = options.stderr_fd = out.get();
    auto started = Subprocess::spawn(options);
    REQUIRE(started.ok());
    process_.emplace(std::move(started).value());
  }
  // The exit code as a shell would report it.
  int wait() {
    pollfd ready{process_->pidfd(), POLLIN, 0};
    while (poll(&ready, 1, -1) < 0) {
    }
    const auto end = process_->reap();
    REQUIRE(end.has_value());
    process_.reset();
    return end->signaled ? 128 + end->code : end->code;
  }
  int run(const std::vector<std::string>& more = {}) {
    start(more);
    return wait();
  }
  int resume(const std::vector<std::string>& more = {}) {
    start_resume(more);
    return wait();
  }

  pid_t pid() const { return process_->pid(); }
  void signal(int number) const { ::kill(pid(), number); }
  std::vector<pid_t> workers() const {
    auto children = children_of(pid());
    std::erase_if(children, [](pid_t child) { return comm_of(child) == "llmtrain-aux"; });
    return children;
  }
  pid_t worker(int rank) const {
    for (const pid_t child : workers())
      if (comm_of(child) == fmt::format("llmtrain-r{}", rank)) return child;
    return -1;
  }
  void wait_for_step(std::int64_t step) const {
    until([&] { return last_step() >= step || !alive(pid()); });
    REQUIRE(alive(pid()));
  }

  std::string console() const { return slurp(console_); }
  std::vector<Json> metrics() const { return read_jsonl(run_dir() / "metrics.jsonl"); }
  std::vector<Json> events(const std::string& name) const {
    std::vector<Json> result;
    for (Json& event : read_jsonl(run_dir() / "events.jsonl"))
      if (event["event"] == name) result.push_back(std::move(event));
    return result;
  }
  Json incident(int number) const {
    return Json::parse(
        slurp(run_dir() / "incidents" / fmt::format("incident-{}.json", number)), nullptr, false);
  }
  bool has_checkpoint(int step) const {
    return fs::exists(run_dir() / "checkpoints" / fmt::format("step-{:08}", step));
  }
  std::int64_t last_step() const {
    // The last line may be half written.
    std::int64_t step = 0;
    std::ifstream file(run_dir() / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const Json row = Json::parse(line, nullptr, false);
      if (row.is_object()) step = row["step"];
    }
    return step;
  }
  // Every step from 1 to `last` was finished, and replayed steps say the same.
  void check_history(std::int64_t last) const {
    std::set<std::int64_t> steps;
    for (const Json& row : metrics()) steps.insert(row["step"].get<std::int64_t>());
    CHECK(steps.size() == static_cast<std::size_t>(last));
    CHECK((steps.empty() ? 0 : *steps.rbegin()) == last);
  }

 private:
  TemporaryDirectory directory_;
  std::string console_;
  int num_commands_ = 0;
  std::optional<Subprocess> process_;
};

}  // namespace llmtrain::test
