#pragma once

// The line between the executable and libllmtrain_engine_*.so: two C functions and bytes.
//
// The engine links its own hidden copy of the plain modules, so no C++ type may cross. A request is
// JSON text; what comes back is a process exit code (core/exit_code.hpp, job/worker_exit.hpp). The
// engine writes results to stdout and everything else to stderr, and throws nothing across this line.
namespace llmtrain {

// Counts up whenever the functions below or a request of any command changes its meaning.
inline constexpr int kEngineAbi = 1;

inline constexpr char kEngineAbiSymbol[] = "llmtrain_engine_abi";
inline constexpr char kEngineRunSymbol[] = "llmtrain_engine_run";

using EngineAbiFunction = int (*)();
// `command` is "worker", "eval", "generate", ...; `request_json` has `size` bytes.
using EngineRunFunction = int (*)(const char* command, const char* request_json, unsigned long size);

}  // namespace llmtrain

extern "C" {
int llmtrain_engine_abi(void);
int llmtrain_engine_run(const char* command, const char* request_json, unsigned long size);
}
