#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/engine_abi.hpp"
#include "llmtrain/tensor/memory_pool.hpp"
#include "llmtrain/train/inference.hpp"
#include "llmtrain/train/prove.hpp"
#include "llmtrain/train/worker.hpp"

// The C entry points of libllmtrain_engine_*.so; see job/engine_abi.hpp for the contract.
namespace {

int unknown_command(std::string_view command) {
  fmt::print(stderr,
             "llmtrain engine: unknown command `{}`; executable and engine must come from one build\n",
             command);
  return llmtrain::to_int(llmtrain::ExitCode::kInternal);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int llmtrain_engine_abi(void) {
  return llmtrain::kEngineAbi;
}

__attribute__((visibility("default"))) int llmtrain_engine_run(const char* command,
                                                               const char* request_json,
                                                               unsigned long size) {
  llmtrain::install_host_memory_counter();
  const std::string_view name = command;
  const std::string request(request_json, size);
  if (name == "worker") return llmtrain::run_worker(request);
  if (name == "eval") return llmtrain::run_eval(request);
  if (name == "generate") return llmtrain::run_generate(request);
  if (name == "prove") return llmtrain::run_prove(request);
  return unknown_command(name);
}

}  // extern "C"
