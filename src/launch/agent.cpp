#include "llmtrain/launch/agent.hpp"

#include <algorithm>
#include <chrono>

#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/job/worker_exit.hpp"
#include "llmtrain/launch/log_tail.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/shm/region.hpp"

namespace llmtrain {
namespace {

constexpr Milliseconds kWatchPeriod{1000};
constexpr std::size_t kTailLines = 20;

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}
Instant now() {
  return std::chrono::duration_cast<Instant>(std::chrono::nanoseconds(now_ns()));
}
double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

WorkerEnd end_of(int rank, const ProcessEnd& end) {
  return {.rank = rank, .signaled = end.signaled, .code = end.code};
}

bool is_failure(ExitClass kind) {
  return kind == ExitClass::kCrash || kind == ExitClass::kFinal || kind == ExitClass::kLostPeer;
}

}  // namespace

Agent::Agent(AgentOptions options, const RunDir& run, FileSystem& files, EventSink& sink)
    : options_(std::move(options)),
      run_(run),
      files_(files),
      sink_(sink),
      supervisor_(options_.supervisor),
      incidents_(files, run) {}

ExitCode Agent::run() {
  StopSignals signals;
  if (const auto status = adopt_orphans(); !status) note(Severity::kWarning, to_string(status.error()));
  carry_out(supervisor_.start(now()));
  while (!supervisor_.done()) {
    wait_for_events(signals);
    for (auto& [rank, worker] : workers_) read_events(worker);
    handle_signals(signals);
    handle_ends();
    watch_progress();
    carry_out(supervisor_.tick(now()));
  }
  for (auto& [rank, worker] : workers_) worker.process().abandon();  // those that could not be killed
  workers_.clear();
  kill_adopted_orphans({});
  return code_;
}

void Agent::wait_for_events(const StopSignals& signals) {
  std::vector<pollfd> fds = {{signals.fd(), POLLIN, 0}};
  for (auto& [rank, worker] : workers_) {
    fds.push_back({worker.process().pidfd(), POLLIN, 0});
    fds.push_back({worker.control_fd(), POLLIN, 0});  // a closed one is -1, which poll passes over
  }
  Milliseconds timeout{-1};
  if (options_.stall_limit.count() > 0) timeout = kWatchPeriod;
  if (const auto deadline = supervisor_.deadline()) {
    const Milliseconds left = std::max(*deadline - now(), Milliseconds{0});
    timeout = timeout.count() < 0 ? left : std::min(timeout, left);
  }
  poll(fds.data(), fds.size(), static_cast<int>(std::min<std::int64_t>(timeout.count(), 3'600'000)));
}

void Agent::read_events(WorkerProcess& worker) {
  for (const std::string& line : worker.read_lines()) {
    auto event = event_from_json(line);
    if (event)
      handle(std::move(event).value());
    else if (garbled_.insert(worker.rank()).second)
      note(Severity::kWarning, "a message that is not understood: " + event.error().message, worker.rank());
  }
}

void Agent::handle(Event event) {
  event.incarnation = supervisor_.incarnation();
  if (const auto* step = std::get_if<StepReport>(&event.body)) {
    supervisor_.step_finished(step->step);
    last_step_ = step->step;
  }
  if (const auto* saved = std::get_if<CheckpointSaved>(&event.body))
    supervisor_.checkpoint_committed(saved->step);
  sink_.on(event);
  if (std::holds_alternative<StepReport>(event.body)) incidents_.step_finished(now());
}

void Agent::handle_signals(StopSignals& signals) {
  while (const auto name = signals.take()) {
    emit(StopRequested{*name});
    carry_out(supervisor_.stop_requested(now()));
  }
}

void Agent::handle_ends() {
  struct Ended {
    WorkerEnd end;
    EndNote note;
    RankNote rank;
  };
  std::vector<Ended> all;
  for (auto it = workers_.begin(); it != workers_.end();) {
    WorkerProcess& worker = it->second;
    const auto end = worker.process().reap();
    if (!end) {
      ++it;
      continue;
    }
    read_events(worker);  // what it said before it died
    all.push_back({end_of(worker.rank(), *end),
                   {.rank = worker.rank(),
                    .pid = worker.pid(),
                    .signaled = end->signaled,
                    .code = end->code,
                    .cause = describe_end(end->signaled, end->code)},
                   look_at(worker.rank(), worker.black_box(), now_ns())});
    supervisor_.step_finished(worker.black_box().step.load());
    it = workers_.erase(it);
  }
  // Seen together, a lost peer is the consequence.
  std::stable_partition(
      all.begin(), all.end(), [](const Ended& e) { return classify(e.end) != ExitClass::kLostPeer; });
  for (Ended& ended : all) {
    incidents_.note_rank(ended.rank);
    if (is_failure(classify(ended.end))) {
      incidents_.begin(now(), unix_time(), supervisor_.incarnation(), "process exit");
      ended.note.by_agent = killing_ && ended.end.signaled;
      incidents_.note_end(now(), ended.note);
      if (!ended.note.by_agent)
        emit(WorkerExited{ended.end.rank,
                          ended.note.pid,
                          ended.end.signaled ? 128 + ended.end.code : ended.end.code,
                          ended.note.cause,
                          ended.rank.step,
                          ended.rank.phase});
    }
    carry_out(supervisor_.worker_ended(now(), ended.end));
  }
}

void Agent::watch_progress() {
  if (options_.stall_limit.count() == 0 || killing_) return;
  const Instant limit = now() - options_.stall_limit;
  for (const auto& [rank, worker] : workers_) {
    const Instant heartbeat =
        std::chrono::duration_cast<Instant>(std::chrono::nanoseconds(worker.black_box().heartbeat_ns.load()));
    if (std::max(heartbeat, started_) >= limit) continue;
    note(
        Severity::kError, fmt::format("no sign of life for {} s", options_.stall_limit.count() / 1000), rank);
    incidents_.begin(now(), unix_time(), supervisor_.incarnation(), "progress watch");
    return carry_out(supervisor_.worker_stalled(now(), rank));
  }
}

void Agent::carry_out(const Commands& commands) {
  for (const Command& command : commands) std::visit([this](const auto& c) { carry_out(c); }, command);
}

void Agent::carry_out(const StartWorkers& command) {
  const Status started = start_incarnation(command);
  if (started) return;
  note(Severity::kError, to_string(started.error()));
  carry_out(supervisor_.abort(now(), exit_code_for(started.error().code), started.error().message));
  // Those that were never started count as gone.
  for (int rank = 0; rank < options_.num_workers; ++rank)
    if (!workers_.contains(rank))
      carry_out(supervisor_.worker_ended(now(), {.rank = rank, .signaled = true, .code = 9}));
}

Status Agent::start_incarnation(const StartWorkers& command) {
  killing_ = false;
  incidents_.forget_ranks();
  garbled_.clear();
  started_ = now();
  LLMTRAIN_ASSIGN(from, options_.find_checkpoint(command.rollback));
  for (const CheckpointRejected& rejected : from.rejected) emit(rejected);
  incidents_.resumed(from.step);
  LLMTRAIN_TRY(remove_leftovers(files_, run_.checkpoints().string(), command.incarnation));
  LLMTRAIN_TRY(prepare_incarnation(
      files_, run_, command.incarnation, options_.worker.request.node, options_.resolved_yaml));
  LLMTRAIN_ASSIGN(shm, create_shm_region(options_.num_workers));
  for (int rank = 0; rank < options_.num_workers; ++rank) LLMTRAIN_TRY(start_worker(rank, from, shm.get()));
  return ok_status();
}

Status Agent::start_worker(int rank, const ResumePoint& from, int shm_fd) {
  WorkerLaunch launch = options_.worker;
  const int incarnation = supervisor_.incarnation();
  launch.request.rank = launch.request.local_rank = rank;
  launch.request.incarnation = incarnation;
  launch.request.resume_path = from.path;
  launch.shm_fd = shm_fd;
  launch.stdout_path = run_.rank_stdout(incarnation, launch.request.node, rank).string();
  launch.stderr_path = run_.rank_stderr(incarnation, launch.request.node, rank).string();
  LLMTRAIN_ASSIGN(worker, WorkerProcess::start(launch));
  workers_.emplace(rank, std::move(worker));
  return ok_status();
}

void Agent::carry_out(const RequestStop&) {
  for (auto& [rank, worker] : workers_) worker.black_box().stop_request.store(1);
}

void Agent::carry_out(const KillWorkers&) {
  killing_ = true;
  look_at_workers();
  for (auto& [rank, worker] : workers_) worker.process().kill_group();
}

void Agent::look_at_workers() {
  for (const auto& [rank, worker] : workers_)
    incidents_.note_rank(look_at(rank, worker.black_box(), now_ns()));
}

void Agent::carry_out(const IncarnationFailed& command) {
  kill_adopted_orphans({});
  incidents_.begin(now(), unix_time(), supervisor_.incarnation(), "agent");
  const std::string action =
      command.restarts
          ? fmt::format("restart {} of {}", command.num_restarts, options_.supervisor.max_restarts)
          : "end the job";
  const Incident incident = incidents_.close(now(), command.first_rank, action);
  if (!incident.first_cause.empty()) show_stderr(incident.first_cause.front());
  if (command.restarts)
    emit(Restarted{command.num_restarts, options_.supervisor.max_restarts, incident.summary});
  else
    note(Severity::kError, incident.summary);
}

void Agent::show_stderr(int rank) {
  const auto path = run_.rank_stderr(incidents_.incarnation(), options_.worker.request.node, rank);
  const std::vector<std::string> lines = last_lines(path.string(), kTailLines);
  for (const std::string& line : lines) note(Severity::kError, line, rank);
}

void Agent::carry_out(const Finish& command) {
  code_ = command.code;
  emit(RunFinished{to_int(command.code), last_step_, command.reason});
}

void Agent::emit(EventBody body) {
  sink_.on(Event{unix_time(), supervisor_.incarnation(), std::move(body)});
}

void Agent::note(Severity severity, const std::string& text, int rank) {
  emit(Note{severity, rank, text});
}

}  // namespace llmtrain
