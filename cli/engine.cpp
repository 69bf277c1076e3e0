#include "engine.hpp"

#include <filesystem>

#include <dlfcn.h>

#include <fmt/format.h>

#include "llmtrain/job/engine_abi.hpp"

namespace llmtrain::cli {
namespace fs = std::filesystem;

Result<std::string> find_engine(const std::string& explicit_path, const std::string& device) {
  std::error_code ignored;
  if (!explicit_path.empty()) {
    if (!fs::is_regular_file(explicit_path, ignored))
      return Error{ErrorCode::kUsage,
                   fmt::format("--engine {}: no such file", explicit_path),
                   "give the path of a libllmtrain_engine_*.so, or leave the flag out"};
    return fs::absolute(explicit_path, ignored).string();
  }
  const std::string name = "libllmtrain_engine_" + device + ".so";
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path candidates[] = {here / name, here.parent_path() / "lib" / name};
  for (const fs::path& candidate : candidates)
    if (fs::is_regular_file(candidate, ignored)) return candidate.string();
  return Error{ErrorCode::kPreflight,
               fmt::format("the engine library is missing: looked for {} and {}",
                           candidates[0].string(),
                           candidates[1].string()),
               "build it (scripts/setup.sh, then the `release` preset) or name it with --engine"};
}

Result<Engine> Engine::open(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Error{ErrorCode::kPreflight,
                 fmt::format("cannot open the engine {}: {}", path, dlerror()),
                 "its libtorch is found by run path: run scripts/setup.sh and build again"};
  const auto abi = reinterpret_cast<EngineAbiFunction>(dlsym(library, kEngineAbiSymbol));
  const auto run = reinterpret_cast<EngineRunFunction>(dlsym(library, kEngineRunSymbol));
  if (abi == nullptr || run == nullptr)
    return Error{ErrorCode::kPreflight, fmt::format("{} is not an llmtrain engine", path), {}};
  if (abi() != kEngineAbi)
    return Error{
        ErrorCode::kPreflight,
        fmt::format("the engine {} speaks interface {}, this executable speaks {}", path, abi(), kEngineAbi),
        "executable and engine must come from one build"};
  return Engine(run);
}

int Engine::run(const std::string& command, const std::string& request_json) const {
  return run_(command.c_str(), request_json.data(), request_json.size());
}

}  // namespace llmtrain::cli
