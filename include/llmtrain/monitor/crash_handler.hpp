#pragma once

#include <string_view>

// What a process says of itself when a signal ends it, and where it stands when it is asked.
//
// Text on descriptor 2, written by signal handlers without memory, locks or stdio:
//
//   llmtrain-crash begin pid 71 rank 3 signal SIGSEGV code 1 address 0x8 step 12 phase backward
//   llmtrain-crash collective 9 all_reduce of dp, 4096 bytes, finished
//   llmtrain-crash 0 /opt/lib/libllmtrain_engine_cpu.so+0x1234
//   llmtrain-crash end
//
// and, on request, the stack of the main thread:
//
//   llmtrain-stack begin 71
//   llmtrain-stack 0 /opt/lib/libllmtrain_engine_cpu.so+0x1234 symbol
//   llmtrain-stack end
//
// The step is the last finished one; offsets are those of addr2line. It judges nothing and keeps no file.
namespace llmtrain {

struct BlackBox;

struct CrashHandlerOptions {
  int rank = 0;
  const BlackBox* black_box = nullptr;  // where step, phase and collective are read; may be null
  int stack_signal = 0;                 // asks for the stack; 0 = none
};

// For SIGSEGV, SIGABRT, SIGBUS, SIGFPE and SIGILL, on a stack of its own for the calling thread, which must
// be the main thread. The process ends by the same signal afterwards. Call it once; what is named must stay.
void install_crash_handler(const CrashHandlerOptions& options);

// Beginnings of the lines above.
inline constexpr std::string_view kCrashLine = "llmtrain-crash ";
inline constexpr std::string_view kStackLine = "llmtrain-stack ";

}  // namespace llmtrain
