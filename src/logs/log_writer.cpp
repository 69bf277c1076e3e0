#include "llmtrain/logs/log_writer.hpp"

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/logs/log_file.hpp"

namespace llmtrain {
namespace {

constexpr Instant kNoticePeriod{10'000};
constexpr std::string_view kSlow = "the log's disk is slow";

struct Waiting {
  explicit Waiting(LogFile where) : file(std::move(where)) {}

  LogFile file;  // of the thread alone
  std::string bytes;
  std::string in_hand;        // that the thread is writing
  std::size_t in_memory = 0;  // of both
  bool mid_line = false;      // what was taken ends inside a line
  bool opened = false;
  bool closing = false;
  LineGap gap;

  bool has_work() const { return !opened || closing || !bytes.empty(); }
};

struct Loss {
  std::uint64_t lines = 0;
  std::string path;
  int error = 0;
};

}  // namespace

struct LogWriter::State {
  explicit State(LogWaiting bounds) : most(bounds) {}

  const LogWaiting most;
  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable idle;
  std::map<int, Waiting> logs;
  int next_id = 0;
  int last_id = -1;  // whose turn it was
  std::size_t in_memory = 0;
  bool writing = false;
  bool ending = false;
  Loss slow, failed;  // not said yet
  std::thread thread;

  // The next in turn with something to do.
  std::map<int, Waiting>::iterator next() {
    auto it = logs.upper_bound(last_id);
    for (std::size_t i = 0; i < logs.size(); ++i, ++it) {
      if (it == logs.end()) it = logs.begin();
      if (it->second.has_work()) return it;
    }
    return logs.end();
  }
  bool is_idle() { return !writing && next() == logs.end(); }
  void drop(Waiting& log, std::string_view bytes);
  void take(Waiting& log, std::string_view bytes);
  void keep(Waiting& log, std::string_view bytes);
  std::optional<std::string> say_lost();
};

void LogWriter::State::drop(Waiting& log, std::string_view bytes) {
  const std::uint64_t before = log.gap.lines();
  log.gap.lose(bytes);
  slow.lines += log.gap.lines() - before;
  slow.path = log.file.path();
}

void LogWriter::State::take(Waiting& log, std::string_view bytes) {
  if (log.in_memory + bytes.size() > most.of_one_log || in_memory + bytes.size() > most.in_all)
    return drop(log, bytes);
  if (log.gap.open()) {
    bytes = log.gap.whole_lines_of(bytes);
    if (bytes.empty()) return;
    keep(log, log.gap.close(kSlow, log.mid_line));
  }
  keep(log, bytes);
}

void LogWriter::State::keep(Waiting& log, std::string_view bytes) {
  log.bytes += bytes;
  log.mid_line = bytes.back() != '\n';
  log.in_memory += bytes.size();
  in_memory += bytes.size();
}

std::optional<std::string> LogWriter::State::say_lost() {
  std::string text;
  if (slow.lines > 0) text = fmt::format("{} lines dropped: {} ({})", slow.lines, kSlow, slow.path);
  if (failed.lines > 0)
    text += fmt::format("{}{} lines dropped: {} cannot be written: {}",
                        text.empty() ? "" : "; ",
                        failed.lines,
                        failed.path,
                        std::strerror(failed.error));
  slow = failed = {};
  return text.empty() ? std::nullopt : std::optional(text);
}

LogWriter::LogWriter(LogWaiting most) : state_(std::make_shared<State>(most)) {}

LogWriter::~LogWriter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->work.notify_all();
  std::thread thread = std::move(state_->thread);
  const bool hangs = !state_->is_idle();
  lock.unlock();
  if (!thread.joinable()) return;
  if (hangs)
    thread.detach();
  else
    thread.join();
}

LogWriter::Log LogWriter::open(std::string path, std::uint64_t max_bytes, int keep) {
  const std::lock_guard lock(state_->mutex);
  const int id = state_->next_id++;
  state_->logs.emplace(id, LogFile(std::move(path), max_bytes, keep));
  if (!state_->thread.joinable()) {
    sigset_t all, before;  // signals are for the agent's own thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    state_->thread = std::thread([state = state_] { run(state); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  state_->work.notify_one();
  return Log(state_, id);
}

void LogWriter::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    const auto turn = state->next();
    if (turn == state->logs.end()) {
      state->idle.notify_all();
      if (state->ending) return;
      state->work.wait(lock);
      continue;
    }
    Waiting& log = turn->second;
    log.in_hand = std::exchange(log.bytes, {});
    state->last_id = turn->first;
    state->writing = true;
    lock.unlock();
    if (!log.opened) log.file.open();
    if (!log.in_hand.empty()) log.file.write(log.in_hand);
    const LogFile::Lost lost = log.file.take_lost();
    lock.lock();
    state->writing = false;
    log.opened = true;
    log.in_memory -= log.in_hand.size();
    state->in_memory -= log.in_hand.size();
    log.in_hand.clear();
    if (lost.lines > 0) state->failed = {state->failed.lines + lost.lines, log.file.path(), lost.error};
    if (log.closing && log.bytes.empty()) state->logs.erase(turn);
  }
}

std::optional<std::string> LogWriter::notice(Instant now) {
  const std::lock_guard lock(state_->mutex);
  if (said_ && now < *said_ + kNoticePeriod) return std::nullopt;
  auto text = state_->say_lost();
  if (text) said_ = now;
  return text;
}

std::optional<std::string> LogWriter::flush(Milliseconds patience) {
  std::unique_lock lock(state_->mutex);
  if (!state_->thread.joinable()) return std::nullopt;
  if (!state_->idle.wait_for(lock, patience, [this] { return state_->is_idle(); }))
    for (auto& [id, log] : state_->logs) {
      state_->drop(log, log.in_hand);
      state_->drop(log, log.bytes);
      state_->in_memory -= log.bytes.size();
      log.in_memory -= log.bytes.size();
      log.bytes.clear();
    }
  return state_->say_lost();
}

LogWriter::Log::~Log() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  Waiting& log = state_->logs.at(id_);
  if (log.gap.open()) state_->keep(log, log.gap.close(kSlow, log.mid_line));
  log.closing = true;
  state_->work.notify_one();
}

LogWriter::Log& LogWriter::Log::operator=(Log&& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(id_, other.id_);
  return *this;
}

void LogWriter::Log::write(std::string_view bytes) {
  if (!state_ || bytes.empty()) return;
  const std::lock_guard lock(state_->mutex);
  state_->take(state_->logs.at(id_), bytes);
  state_->work.notify_one();
}

}  // namespace llmtrain
