#pragma once

#include <string>

#include "llmtrain/core/result.hpp"

// The tensor plane, opened on demand by the commands that compute.
//
// Nothing here knows libtorch: the library is mapped when `open` is called and stays mapped until the
// process ends (libtorch does not unload).
namespace llmtrain::cli {

// The path of the engine library: `explicit_path` if it is given, else libllmtrain_engine_<device>.so
// beside this executable, then in ../lib. `device` is "cpu" or "cuda". Does not open it.
Result<std::string> find_engine(const std::string& explicit_path, const std::string& device = "cpu");

class Engine {
 public:
  // Maps the library and checks that it speaks this executable's kEngineAbi.
  static Result<Engine> open(const std::string& path);

  // Runs a command (engine_abi.hpp) and returns the exit code of the process.
  int run(const std::string& command, const std::string& request_json) const;

 private:
  using RunFunction = int (*)(const char*, const char*, unsigned long);
  explicit Engine(RunFunction function) : run_(function) {}

  RunFunction run_;
};

}  // namespace llmtrain::cli
