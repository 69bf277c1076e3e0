#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/job/worker_signals.hpp"
#include "llmtrain/monitor/black_box.hpp"
#include "llmtrain/monitor/crash_handler.hpp"

#include "commands.hpp"
#include "engine.hpp"

// `llmtrain worker --request-fd N`: what the agent starts, once for each rank; not for people.
namespace llmtrain::cli {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "llmtrain worker: {}\n", to_string(error));
  return to_int(exit_code_for(error.code));
}

Result<std::string> read_request(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size <= 0)
    return Error{ErrorCode::kUsage,
                 fmt::format("descriptor {} holds no request", fd),
                 "this command is started by `llmtrain launch`, not by hand"};
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = pread(fd, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      return Error{ErrorCode::kIo, fmt::format("cannot read the request: {}", std::strerror(errno)), {}};
    done += static_cast<std::size_t>(n);
  }
  return text;
}

// For as long as this process lives.
Result<BlackBox*> map_black_box(int fd) {
  void* const page = mmap(nullptr, sizeof(BlackBox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED)
    return Error{ErrorCode::kInternal, fmt::format("cannot map the black box: {}", std::strerror(errno)), {}};
  return static_cast<BlackBox*>(page);
}

// A signal meant for this rank alone (a scheduler that signals every process of a step, a person with
// `kill`) becomes the same request that the agent makes: stop after this step, all ranks together.
// The signals are blocked before any other thread exists, so that only this thread ever sees them.
Status answer_stop_signals(BlackBox* page) {
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&stops, signal);
  if (const int error = pthread_sigmask(SIG_BLOCK, &stops, nullptr); error != 0)
    return Error{ErrorCode::kInternal, fmt::format("cannot block signals: {}", std::strerror(error)), {}};
  std::thread([stops, box = page] {
    for (int signal = 0; sigwait(&stops, &signal) == 0;) box->stop_request.store(1);
  }).detach();
  return ok_status();
}

int run_worker(int request_fd) {
  const auto text = read_request(request_fd);
  if (!text) return fail(text.error());
  const auto request = worker_request_from_json(*text);
  if (!request) return fail(request.error());
  prctl(PR_SET_NAME, fmt::format("llmtrain-r{}", request->rank).c_str(), 0, 0, 0);
  const auto box = map_black_box(request->black_box_fd);
  if (!box) return fail(box.error());
  install_crash_handler({.rank = request->rank, .black_box = *box, .stack_signal = kStackSignal});
  if (const auto status = answer_stop_signals(*box); !status) return fail(status.error());

  const auto engine = Engine::open(request->engine_path);
  if (!engine) return fail(engine.error());
  const int code = engine->run("worker", *text);
  // The static destructors of libtorch and of its thread pools may race with threads that still run.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

void add_worker(CLI::App& app, Runner& run) {
  auto* const command = app.add_subcommand("worker", "Run one rank (started by launch)")->group("");
  auto request_fd = std::make_shared<int>(-1);
  command->add_option("--request-fd", *request_fd, "Inherited descriptor that holds the request")->required();
  command->callback([request_fd, &run] { run = [request_fd] { return run_worker(*request_fd); }; });
}

}  // namespace llmtrain::cli
