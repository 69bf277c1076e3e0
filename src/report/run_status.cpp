#include "llmtrain/report/run_status.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>

#include <fmt/format.h>

#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/report/line_reader.hpp"

namespace llmtrain {
namespace {

constexpr std::uint64_t kMetricsTail = 256 * 1024;
constexpr std::uint64_t kEventsTail = 4 << 20;
constexpr std::uint64_t kMaxSpec = 4 << 20;
constexpr std::uint64_t kMaxPath = 64 * 1024;
constexpr std::size_t kPaceSteps = 200;

Result<LineReader> open_tail(FileSystem& files, const std::string& path, std::uint64_t bytes) {
  LLMTRAIN_ASSIGN(info, files.info(path));
  return LineReader::open(files, path, info && info->bytes > bytes ? info->bytes - bytes : 0);
}

void note_time(RunStatus& status, double time) {
  status.newest_time = std::max(status.newest_time.value_or(time), time);
}

struct NewestStep {
  int incarnation = -1;
  double time = 0;
};

// The last steps of the newest incarnation give the pace.
Status read_metrics(FileSystem& files, const RunDir& run, RunStatus& status, NewestStep& newest) {
  LLMTRAIN_ASSIGN(reader, open_tail(files, run.metrics().string(), kMetricsTail));
  std::deque<StepRow> rows;
  for (std::string_view line; reader.next(line);) {
    const auto row = step_row(line);
    if (!row) continue;
    if (!rows.empty() && (rows.back().incarnation != row->incarnation || rows.back().step >= row->step))
      rows.clear();
    rows.push_back(*row);
    if (rows.size() > kPaceSteps + 1) rows.pop_front();
  }
  if (rows.empty()) return ok_status();
  const StepRow& last = rows.back();
  newest = {last.incarnation, last.time};
  status.step = last.step;
  status.loss = last.loss;
  status.tok_s = last.tok_s;
  status.mfu = last.mfu;
  note_time(status, last.time);
  const double pace = (last.time - rows.front().time) /
                      static_cast<double>(std::max<std::int64_t>(1, last.step - rows.front().step));
  if (rows.size() > 1 && pace >= 0)
    status.seconds_per_step = pace;
  else if (last.step_ms)
    status.seconds_per_step = *last.step_ms / 1e3;
  return ok_status();
}

struct Events {
  std::optional<FinishNote> finish;
  double failed_at = 0;
  std::string stop;
};

Result<Events> read_events(FileSystem& files, const RunDir& run, RunStatus& status) {
  LLMTRAIN_ASSIGN(reader, open_tail(files, run.events().string(), kEventsTail));
  Events events;
  for (std::string_view line; reader.next(line);) {
    const auto event = event_row(line);
    if (!event) continue;
    note_time(status, event->time);
    if (event->incarnation > status.incarnation) {
      if (events.finish) status.restarts = 0;  // another launch
      if (events.finish) events.failed_at = 0;
      events.finish.reset();
      events.stop.clear();
      status.stragglers.clear();
    }
    status.incarnation = std::max(status.incarnation, event->incarnation);
    if (event->kind == EventKind::kRunStarted) {
      status.name = event->name;
      status.layout = event->layout;
      status.world_size = event->world_size;
      status.total_steps = event->total_steps;
      status.step = std::max<std::int64_t>(0, event->step);
    } else if (event->kind == EventKind::kWorkerExited || event->kind == EventKind::kRestart) {
      events.failed_at = event->time;
      if (event->kind == EventKind::kRestart) {
        status.restarts = event->restarts;
        status.max_restarts = event->max_restarts;
      }
    } else if (event->kind == EventKind::kStraggler) {
      status.stragglers.push_back(straggler_note(*event));
    } else if (event->kind == EventKind::kStragglerOver) {
      std::erase_if(status.stragglers, [&](const StragglerNote& known) { return ends(*event, known); });
    } else if (event->kind == EventKind::kStopRequested) {
      events.stop = event->text;
    } else if (event->kind == EventKind::kRunFinished) {
      events.finish = FinishNote{event->time, event->code, event->step, event->text};
    }
  }
  return events;
}

// What the run was asked to do, for a run that has not said it yet.
void read_spec(FileSystem& files, const RunDir& run, RunStatus& status) {
  const std::string path = run.resolved_spec().string();
  const auto text = read_file(files, path, kMaxSpec);
  if (!text) return;
  const auto spec = parse_resolved(*text, path);
  if (!spec) return;
  const RunPlan plan = plan_run(*spec);
  status.name = spec->run.name;
  status.total_steps = plan.total_steps;
  status.world_size = plan.world_size;
  status.max_restarts = spec->resilience.max_restarts;
}

void judge_ended(const Events& events, bool used, RunStatus& status) {
  if (!events.finish) {
    status.state = used ? RunState::kFailed : RunState::kNew;
    if (used)
      status.why = "no launch lives here and none has written its end: it was killed, or its host went down";
    return;
  }
  const int code = events.finish->code;
  const bool stopped = code == to_int(ExitCode::kPreempted) || code == to_int(ExitCode::kPreemptedUnsaved);
  status.state = code == 0 ? RunState::kFinished : stopped ? RunState::kStopped : RunState::kFailed;
  if (code != 0) status.why = fmt::format("{} (exit code {})", events.finish->reason, code);
}

void judge_live(const Events& events, const NewestStep& newest, RunStatus& status) {
  const bool stepped = newest.incarnation >= 0 && newest.incarnation >= status.incarnation;
  if (events.failed_at > newest.time)
    status.state = RunState::kRestarting;
  else
    status.state = stepped && !events.finish ? RunState::kRunning : RunState::kStarting;
  if (!events.stop.empty()) status.why = events.stop + " was received: it stops after a step";
}

void read_checkpoints(FileSystem& files, const RunDir& run, RunStatus& status) {
  const auto newest = find_newest(files, run.checkpoints().string(), VerifyDepth::kSizes);
  if (!newest) return void(status.checkpoint_problem = newest.error().message);
  status.checkpoint = newest->chosen;
  if (!newest->rejected.empty())
    status.checkpoint_problem = newest->rejected.front().path + ": " + newest->rejected.front().reason;
}

void read_newest_incident(FileSystem& files, const RunDir& run, RunStatus& status) {
  std::int64_t bad = 0;
  auto newest = read_incidents(files, run, 1, bad);
  if (newest.empty()) return;
  status.incidents = newest.back().number + 1;
  status.newest_incident = std::move(newest.back());
}

// Of all nodes, as the leading one was told: with --log-dir they may lie on each node's own disk.
std::string find_logs(FileSystem& files, const RunDir& run, int incarnation) {
  const auto place = read_file(files, run.log_place().string(), kMaxPath);
  if (!place || place->empty()) return run.logs(incarnation, 0).parent_path().string();
  return (std::filesystem::path(place->substr(0, place->find('\n'))) / std::to_string(incarnation)).string();
}

}  // namespace

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::kNew: return "new";
    case RunState::kStarting: return "starting";
    case RunState::kRunning: return "running";
    case RunState::kRestarting: return "restarting";
    case RunState::kFinished: return "finished";
    case RunState::kStopped: return "stopped";
    case RunState::kFailed: return "failed";
  }
  return "?";
}

Result<RunStatus> read_status(FileSystem& files, const RunDir& run, bool live) {
  RunStatus status;
  status.run_dir = run.root().string();
  status.live = live;
  read_spec(files, run, status);
  NewestStep newest;
  LLMTRAIN_ASSIGN(events, read_events(files, run, status));
  LLMTRAIN_TRY(read_metrics(files, run, status, newest));
  status.incarnation = std::max(status.incarnation, newest.incarnation);
  if (live) {
    judge_live(events, newest, status);
    if (const auto agents = read_status_file(files, run.status().string())) status.agents = *agents;
    if (status.agents && status.agents->step >= status.step) status.step = status.agents->step;
    if (status.seconds_per_step && status.total_steps > 0)
      status.seconds_left = *status.seconds_per_step *
                            static_cast<double>(std::max<std::int64_t>(0, status.total_steps - status.step));
  } else {
    judge_ended(events, status.newest_time.has_value(), status);
  }
  read_checkpoints(files, run, status);
  read_newest_incident(files, run, status);
  if (status.incarnation >= 0) status.logs = find_logs(files, run, status.incarnation);
  return status;
}

}  // namespace llmtrain
