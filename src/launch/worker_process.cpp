#include "llmtrain/launch/worker_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/core/system_limits.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxLineBytes = 1 << 20;

struct OpenStream {
  LogCapture capture;
  UniqueFd writer;  // for the worker
};

Result<OpenStream> open_stream(const WorkerLaunch& launch, WorkerStream stream) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return system_error(ErrorCode::kPreflight, "cannot make a pipe for output");
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const bool is_out = stream == WorkerStream::kOut;
  LogLimits limits = launch.log;
  if (is_out) limits.recent = 0;  // last words and stacks go to stderr
  LogCapture::Line line;
  if (launch.line) line = [say = launch.line, stream](std::string_view text) { say(stream, text); };
  LogWriter::Log log =
      launch.logs->open(is_out ? launch.stdout_path : launch.stderr_path, limits.max_bytes, limits.keep);
  LLMTRAIN_ASSIGN(capture, LogCapture::start(std::move(reader), std::move(log), limits, std::move(line)));
  return OpenStream{std::move(capture), std::move(writer)};
}

Status write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(ErrorCode::kInternal, "cannot write a memory file");
    done += static_cast<std::size_t>(n);
  }
  return ok_status();
}

}  // namespace

Result<UniqueFd> make_memory_file(const char* name, std::size_t bytes) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return system_error(ErrorCode::kPreflight, fmt::format("cannot make {} bytes of shared memory", bytes));
  // A worker that shrank it would make its agent's next look at it a bus error.
  if (bytes > 0) fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

void WorkerProcess::Unmap::operator()(BlackBox* box) const {
  munmap(box, sizeof(BlackBox));
}

WorkerProcess::WorkerProcess(int rank, Subprocess process, UniqueFd control, BoxPointer box, Output output)
    : rank_(rank),
      pid_(process.pid()),
      out_(std::move(output.out)),
      err_(std::move(output.err)),
      control_(std::move(control)),
      box_(std::move(box)),
      process_(std::move(process)) {}

Result<WorkerProcess> WorkerProcess::start(const WorkerLaunch& launch) {
  LLMTRAIN_ASSIGN(out, open_stream(launch, WorkerStream::kOut));
  LLMTRAIN_ASSIGN(err, open_stream(launch, WorkerStream::kErr));
  LLMTRAIN_ASSIGN(box_fd, make_memory_file("llmtrain-black-box", sizeof(BlackBox)));
  void* const page = mmap(nullptr, sizeof(BlackBox), PROT_READ | PROT_WRITE, MAP_SHARED, box_fd.get(), 0);
  if (page == MAP_FAILED) return system_error(ErrorCode::kPreflight, "cannot map a black box");
  BoxPointer box(new (page) BlackBox);

  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return system_error(ErrorCode::kPreflight, "cannot make a control socket");
  UniqueFd ours(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);

  LLMTRAIN_ASSIGN(request_fd, make_memory_file("llmtrain-request", 0));
  WorkerRequest request = launch.request;
  request.control_fd = theirs.get();
  request.black_box_fd = box_fd.get();
  request.shm_fd = launch.shm_fd;
  request.store_fd = launch.store_fd;
  LLMTRAIN_TRY(write_all(request_fd.get(), to_json(request)));

  SpawnOptions spawn;
  spawn.executable = launch.executable;
  spawn.arguments = {fmt::format("llmtrain-r{}", request.rank)};
  spawn.arguments.insert(spawn.arguments.end(), launch.arguments.begin(), launch.arguments.end());
  spawn.arguments.insert(spawn.arguments.end(), {"--request-fd", std::to_string(request_fd.get())});
  spawn.environment = launch.environment;
  spawn.inherited_fds = {request_fd.get(), theirs.get(), box_fd.get()};
  for (const int fd : {launch.shm_fd, launch.store_fd})
    if (fd >= 0) spawn.inherited_fds.push_back(fd);
  spawn.stdout_fd = out.writer.get();
  spawn.stderr_fd = err.writer.get();
  // A stop signal that comes before the worker listens waits for it instead of killing it.
  spawn.blocked_signals = {SIGTERM, SIGINT, SIGUSR1};
  LLMTRAIN_ASSIGN(process, Subprocess::spawn(spawn));
  return WorkerProcess(request.rank,
                       std::move(process),
                       std::move(ours),
                       std::move(box),
                       {std::move(out.capture), std::move(err.capture)});
}

void WorkerProcess::pump_output(StormGate::Instant now) {
  out_.pump(now);
  err_.pump(now);
}

void WorkerProcess::finish_output(StormGate::Instant now) {
  out_.finish(now);
  err_.finish(now);
}

std::vector<std::string> WorkerProcess::read_lines() {
  std::vector<std::string> lines;
  char buffer[16384];
  while (control_.valid()) {
    const ssize_t n = recv(control_.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {  // closed, or reset by a worker that left with unread bytes
      control_.reset();
      break;
    }
    for (const char* at = buffer; at < buffer + n;) {
      const char* const end = std::find(at, static_cast<const char*>(buffer + n), '\n');
      if (!skipping_) pending_.append(at, end);
      if (pending_.size() > kMaxLineBytes) {
        pending_.clear();
        skipping_ = true;
      }
      if (end == buffer + n) break;
      if (!std::exchange(skipping_, false) && !pending_.empty()) lines.push_back(std::move(pending_));
      pending_.clear();
      at = end + 1;
    }
  }
  return lines;
}

}  // namespace llmtrain
