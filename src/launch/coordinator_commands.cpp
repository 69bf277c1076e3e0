// What the supervisor decides, carried out: starts, stops, kills, restarts, the end.
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/control/epoch_fence.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/launch/coordinator.hpp"
#include "llmtrain/launch/missed_steps.hpp"
#include "llmtrain/launch/run_files.hpp"
#include "llmtrain/logs/log_tail.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kTailLines = 20;

}  // namespace

void Coordinator::carry_out(Instant now, const Commands& commands) {
  for (const Command& command : commands) std::visit([&](const auto& c) { carry_out(now, c); }, command);
}

void Coordinator::carry_out(Instant now, const StartWorkers& command) {
  close_lost_leader(now);
  incidents_.forget_ranks();
  status_.forget_ranks();
  last_words_.clear();
  store_.clear();
  stop_after_start_ = false;
  start_orders_.clear();
  // Another number of nodes has other times.
  if (options_.deadlines && command.nodes.size() != slots_.size()) progress_.emplace(*options_.deadlines);
  arrange_nodes(command.nodes);
  yaml_ = options_.resolved_yaml;
  if (std::ssize(slots_) < num_nodes()) {
    auto yaml = options_.resolve_for(static_cast<int>(slots_.size()));
    if (!yaml)
      return start_failed(now, exit_code_for(yaml.error().code), to_string(yaml.error()), all_ranks());
    yaml_ = std::move(yaml).value();
    note(Severity::kWarning,
         fmt::format("goes on with {} of {} nodes: {}", slots_.size(), num_nodes(), fmt::join(slots_, ", ")));
  }
  const auto spec = parse_resolved(yaml_, "the job as it is started");
  has_started_ = true;
  const MeshShape mesh = spec ? plan_run(*spec).mesh : MeshShape{};
  evidence_.forget(mesh);
  if (stragglers_) stragglers_->start(mesh);
  if (options_.in_background) return search(command);
  start_from(now, prepare(command, yaml_));
}

void Coordinator::search(const StartWorkers& command) {
  search_wanted_ = command;
  if (search_.running()) {
    search_is_old_ = true;
    return;
  }
  search_is_old_ = false;
  search_.start([this, command, yaml = yaml_] { return prepare(command, yaml); });
}

void Coordinator::search_finished(Instant now) {
  const auto from = search_.take();
  if (!from || !search_wanted_) return;
  if (search_is_old_) return search(*search_wanted_);
  search_wanted_.reset();
  start_from(now, *from);
}

void Coordinator::start_from(Instant now, const Result<ResumePoint>& from) {
  if (!from) return start_failed(now, exit_code_for(from.error().code), to_string(from.error()), all_ranks());
  for (const CheckpointRejected& rejected : from->rejected) emit(rejected);
  for (const Event& step : from->missed) sink_.on(step);
  incidents_.resumed(from->step);
  stepped_.reset();
  if (progress_) progress_->start(from->step);
  order_start(std::filesystem::path(from->path).filename().string());
  if (std::exchange(stop_after_start_, false)) order_all(StopOrder{});
}

void Coordinator::order_start(const std::string& checkpoint) {
  StartOrder order;
  order.incarnation = supervisor_.incarnation();
  order.epoch = options_.epoch;
  order.nodes = static_cast<int>(slots_.size());
  order.num_workers = options_.procs_per_node;
  order.world_size = static_cast<int>(all_ranks().size());
  order.spec_yaml = yaml_;
  order.checkpoint = checkpoint;
  order.first_rank = 0;
  for (const int node : slots_) {
    order.node = node;
    orders_.emplace_back(node, order);
    start_orders_[node] = order;
    order.first_rank += options_.procs_per_node;
  }
}

// Nothing was started yet: what is to be killed counts as gone at once.
void Coordinator::start_cancelled(Instant now) {
  search_wanted_.reset();
  count_as_gone(now, all_ranks());
}

// The last of them may start the next incarnation, whose ranks bear the same numbers.
void Coordinator::count_as_gone(Instant now, std::vector<int> ranks) {
  std::erase_if(ranks, [this](int rank) { return !supervisor_.alive(rank); });
  for (const int rank : ranks)
    carry_out(now, supervisor_.worker_ended(now, {.rank = rank, .signaled = true, .code = 9}));
}

// The number of the incarnation is taken by its spec before anything else, and only then it is asked who
// leads: either this leader sees that it is fenced, or its successor sees the number and takes a larger one.
Result<ResumePoint> Coordinator::prepare(const StartWorkers& command, const std::string& yaml) {
  LLMTRAIN_ASSIGN(from, options_.find_checkpoint(command.rollback));
  LLMTRAIN_TRY(write_resolved_spec(files_, run_, command.incarnation, yaml, options_.resolved_yaml));
  if (options_.epoch > 0) LLMTRAIN_TRY(check_not_fenced(files_, run_.control().string(), options_.epoch));
  LLMTRAIN_TRY(remove_leftovers(files_, run_.checkpoints().string(), command.incarnation));
  if (options_.epoch == 0 || from.path.empty()) return from;
  auto missed = find_missed_steps(files_, from.path, run_.metrics().string());
  if (missed)
    from.missed = std::move(missed).value();
  else  // as another build wrote them: no reason not to go on
    from.missed = {
        {clock_.now(),
         command.incarnation,
         Note{Severity::kWarning,
              -1,
              "steps that the leader before missed are not written down: " + missed.error().message}}};
  return from;
}

void Coordinator::start_failed(Instant now,
                               ExitCode code,
                               const std::string& message,
                               const std::vector<int>& gone) {
  note(Severity::kError, message);
  carry_out(now, supervisor_.abort(now, code, message));
  count_as_gone(now, gone);  // those that were never started
}

void Coordinator::carry_out(Instant, const PlannedRestart& command) {
  emit(Restarted{supervisor_.num_restarts(),
                 options_.supervisor.max_restarts,
                 fmt::format("planned, and not counted: {}", command.reason)});
}

void Coordinator::carry_out(Instant, const RequestStop&) {
  if (searching())
    stop_after_start_ = true;
  else
    order_all(StopOrder{});
}

void Coordinator::carry_out(Instant now, const KillWorkers&) {
  if (searching()) return start_cancelled(now);
  order_all(KillOrder{.stacks = supervisor_.hung()});
}

JudgedFailure Coordinator::judge_failure(const FailureSigns& signs) {
  Evidence evidence = evidence_.make(hosts_, supervisor_.crashes_at_step());
  for (const auto& [rank, words] : last_words_)
    evidence.reports.push_back({rank, fmt::format("{}", fmt::join(words, "\n"))});
  evidence.unkillable = signs.unkillable;
  evidence.before = FailurePlace{verdict_.culprits, verdict_.phase, verdict_.cause};
  verdict_ = judge(evidence);
  JudgedFailure judged{verdict_.kind, verdict_.node};
  for (const int rank : signs.unkillable) judged.useless_nodes.insert(node_of(rank));
  judged.before_load = verdict_.phase == to_string(Phase::kStarting);
  return judged;
}

void Coordinator::carry_out(Instant now, const IncarnationFailed& command) {
  search_wanted_.reset();
  for (const int rank : command.unkillable) {  // nobody will ever say that they have left
    status_.forget(rank);
    if (progress_) progress_->forget(rank);
  }
  incidents_.begin(now, clock_.now(), supervisor_.incarnation(), "agent");
  std::string action = "end the job";
  if (command.restarts) {
    action = fmt::format("restart {} of {}", command.num_restarts, options_.supervisor.max_restarts);
    if (command.rollback > 0) action += ", from one checkpoint further back";
    for (const int node : command.excluded) action += fmt::format(", without {}", name_of(node));
  }
  const Incident incident = incidents_.close(now, command.first_rank, action, verdict_);
  if (!verdict_.paragraph.empty()) note(Severity::kError, verdict_.paragraph);
  if (!incident.first_cause.empty()) show_stderr(incident.first_cause.front());
  if (command.restarts) {
    write_history(now);
    emit(Restarted{command.num_restarts, options_.supervisor.max_restarts, incident.summary});
  } else
    note(Severity::kError, incident.summary);
  for (const int node : command.excluded) exclude_node(node);
}

// On one node nobody takes over.
void Coordinator::write_history(Instant now) {
  if (options_.epoch == 0) return;
  const auto written = write_restart_history(files_, run_.restarts().string(), supervisor_.history(now));
  if (!written)
    note(Severity::kWarning, "restarts are not counted beyond this leader: " + to_string(written.error()));
}

// Its node has sent the end of it; when the node is gone, what lies in the run directory has to do.
void Coordinator::show_stderr(int rank) {
  const auto path = run_.rank_stderr(incidents_.incarnation(), node_of(rank), rank);
  const auto sent = last_words_.find(rank);
  for (const std::string& line :
       sent != last_words_.end() ? sent->second : last_lines(path.string(), kTailLines))
    note(Severity::kError, line, rank);
}

void Coordinator::carry_out(Instant now, const Finish& command) {
  close_lost_leader(now);
  code_ = command.code;
  emit(RunFinished{to_int(command.code), last_step_, command.reason});
  search_wanted_.reset();
  finish_ = {to_int(command.code), command.reason};
  order_all(finish_);
  status_.remove();
}

}  // namespace llmtrain
