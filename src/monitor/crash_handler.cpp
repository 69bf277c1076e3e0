#include "llmtrain/monitor/crash_handler.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "llmtrain/monitor/black_box.hpp"

#include "memory_map.hpp"
#include "signal_text.hpp"

namespace llmtrain {
namespace {

constexpr int kMaxFrames = 64;
constexpr std::size_t kStackBytes = 256 * 1024;

// A handler is called without arguments of ours: this is what it knows. Set once, before it can be called.
CrashHandlerOptions g_options;  // NOLINT: signal handlers reach nothing else

using Places = std::array<CodePlace, kMaxFrames>;

// The own frames of the handler come first; `skipped` of them are left out.
__attribute__((noinline)) std::size_t walk_stack(Places& places, int skipped) {
  std::array<void*, kMaxFrames> frames{};
  const int found = ::backtrace(frames.data(), kMaxFrames);
  std::size_t count = 0;
  for (int i = skipped; i < found; ++i)
    places[count++].address = reinterpret_cast<std::uint64_t>(frames[static_cast<std::size_t>(i)]);
  find_modules(places.data(), count);
  return count;
}

std::string_view text_of(const char* bytes, std::size_t most) {
  return {bytes, ::strnlen(bytes, most)};
}

std::string_view name_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV: return "SIGSEGV";
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGILL: return "SIGILL";
    default: return "signal";
  }
}

void write_place(SignalText& line, std::string_view mark, std::size_t frame, const CodePlace& place) {
  const std::string_view module = text_of(place.module.data(), place.module.size());
  line << mark << static_cast<std::int64_t>(frame) << " " << (module.empty() ? "?" : module) << "+";
  line.hex(place.offset);
}

void write_collective(const BlackBox& box) {
  const std::uint64_t count = box.num_collectives.load(std::memory_order_acquire);
  if (count == 0) return;
  const CollectiveRecord& newest = box.ring[(count - 1) % BlackBox::kRingSize];
  SignalText line;
  line << kCrashLine << "collective " << static_cast<std::int64_t>(newest.sequence.load()) << " "
       << text_of(newest.op.data(), newest.op.size()) << " of "
       << text_of(newest.group.data(), newest.group.size()) << ", "
       << static_cast<std::int64_t>(newest.bytes.load()) << " bytes, "
       << (newest.finished_ns.load() != 0 ? "finished" : "not finished");
  line.end_line();
}

void on_crash(int signal, siginfo_t* info, void*) {
  // Whatever goes wrong from here on ends the process by the same signal.
  std::signal(signal, SIG_DFL);  // NOLINT: async-signal-safe
  SignalText line;
  line << kCrashLine << "begin pid " << ::getpid() << " rank " << g_options.rank << " signal "
       << name_of_signal(signal) << " code " << info->si_code << " address ";
  line.hex(info->si_code > 0 ? reinterpret_cast<std::uint64_t>(info->si_addr) : 0);
  if (const BlackBox* box = g_options.black_box)
    line << " step " << box->step.load() << " phase " << to_string(box->phase.load());
  line.end_line();
  if (g_options.black_box != nullptr) write_collective(*g_options.black_box);
  Places places;
  const std::size_t count = walk_stack(places, 3);  // walk_stack, this, and what the kernel calls
  for (std::size_t i = 0; i < count; ++i) {
    write_place(line, kCrashLine, i, places[i]);
    line.end_line();
  }
  line << kCrashLine << "end";
  line.end_line();
  // Blocked while this runs, so that it comes with the default action as soon as this returns.
  ::syscall(SYS_tgkill, ::getpid(), ::gettid(), signal);
}

// The loader may be locked by another thread: each line is out before its symbol is looked for.
void on_stack_request(int signal, siginfo_t*, void*) {
  const int saved = errno;
  if (::gettid() != ::getpid()) {
    ::syscall(SYS_tgkill, ::getpid(), ::getpid(), signal);
    errno = saved;
    return;
  }
  SignalText line;
  line << kStackLine << "begin " << ::getpid();
  line.end_line();
  Places places;
  const std::size_t count = walk_stack(places, 3);
  for (std::size_t i = 0; i < count; ++i) {
    write_place(line, kStackLine, i, places[i]);
    line.flush();
    Dl_info known{};
    if (::dladdr(reinterpret_cast<void*>(places[i].address), &known) != 0 && known.dli_sname != nullptr)
      line << " " << known.dli_sname;
    line.end_line();
  }
  line << kStackLine << "end";
  line.end_line();
  errno = saved;
}

void handle(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

}  // namespace

void install_crash_handler(const CrashHandlerOptions& options) {
  g_options = options;
  std::array<void*, 2> warm_up{};
  ::backtrace(warm_up.data(), 2);  // the first call loads the unwinder, which no handler may do
  void* const memory =
      ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory != MAP_FAILED) {
    const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = kStackBytes};
    ::sigaltstack(&stack, nullptr);
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) handle(signal, on_crash, SA_ONSTACK);
  if (options.stack_signal != 0) handle(options.stack_signal, on_stack_request, SA_RESTART);
}

}  // namespace llmtrain
