#include "llmtrain/launch/coordinator.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>

#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/control/epoch_fence.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/launch/log_tail.hpp"
#include "llmtrain/launch/missed_steps.hpp"
#include "llmtrain/launch/run_files.hpp"

#include "poll_timeout.hpp"
#include "unix_time.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kTailLines = 20;
constexpr std::size_t kMaxLastWords = 256;  // ranks; those that failed first come first

bool is_failure(ExitClass kind) {
  return kind == ExitClass::kCrash || kind == ExitClass::kFinal || kind == ExitClass::kLostPeer;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, const RunDir& run, FileSystem& files, EventSink& sink)
    : options_(std::move(options)),
      run_(run),
      files_(files),
      sink_(sink),
      supervisor_(supervisor_options()),
      incidents_(files, run),
      slots_(static_cast<std::size_t>(num_nodes())),
      status_(files, run.status().string()) {
  if (options_.deadlines) progress_.emplace(*options_.deadlines);
  std::iota(slots_.begin(), slots_.end(), 0);
  if (options_.successor) {
    const auto spec = parse_resolved(options_.resolved_yaml, "the job");
    evidence_.forget(spec ? plan_run(*spec).mesh : MeshShape{});
  }
  hosts_[options_.node] = options_.host;
  pids_[options_.node] = getpid();
}

// What failed is judged here before it is decided what follows.
SupervisorOptions Coordinator::supervisor_options() {
  SupervisorOptions options = options_.supervisor;
  options.judge = [this](const FailureSigns& signs) { return judge_failure(signs); };
  return options;
}

void Coordinator::start(Instant now) {
  if (options_.time_limit) time_limit_ = TimeLimit(now, *options_.time_limit, options_.known_save);
  const Commands commands = supervisor_.start(now);
  write_history(now);
  carry_out(now, commands);
}

void Coordinator::tick(Instant now) {
  search_finished(now);
  for (const int node : silent_.take_given_up(now)) {
    unreachable_.insert(node);
    changes_.push_back({MembershipChange::Kind::kGiveUp, node});
    node_lost(now, node, "its link carries nothing, and no step is finished any more");
  }
  answer(store_.tick(now));
  watch_progress(now);
  watch_time_limit(now);
  carry_out(now, supervisor_.tick(now));
  let_leavers_go();
  write_status(now);
}

void Coordinator::abort(Instant now, ExitCode code, const std::string& reason) {
  carry_out(now, supervisor_.abort(now, code, reason));
}

std::optional<Instant> Coordinator::deadline() const {
  return earliest(earliest(supervisor_.deadline(), time_limit_.stop_at()),
                  earliest(earliest(silent_.deadline(), store_.deadline()), status_.deadline()));
}

void Coordinator::add_poll_fds(std::vector<pollfd>& fds) const {
  fds.push_back({search_.fd(), POLLIN, 0});
}

std::vector<AddressedOrder> Coordinator::take_orders() {
  return std::exchange(orders_, {});
}

std::vector<MembershipChange> Coordinator::take_changes() {
  return std::exchange(changes_, {});
}

// ---- reports -------------------------------------------------------------------------------------------

void Coordinator::receive(Instant now, int node, const NodeReport& report) {
  std::visit([&](const auto& r) { receive_from(now, node, r); }, report);
}

void Coordinator::receive_from(Instant now, int node, const NodeReady&) {
  carry_out(now, supervisor_.node_ready(now, node));
}

void Coordinator::receive_from(Instant now, int node, const StartFailed& report) {
  if (report.incarnation != supervisor_.incarnation()) return;
  evidence_.start_failed(fmt::format("{}: {}", name_of(node), report.message));
  start_failed(now, static_cast<ExitCode>(report.code), report.message, report.not_started);
}

void Coordinator::receive_from(Instant now, int node, const WorkerSaid& report) {
  if (report.incarnation != supervisor_.incarnation()) return;
  Event event = report.event;
  event.incarnation = report.incarnation;
  if (node != options_.node) event.time = unix_time();  // one file, one clock: those of hosts differ
  const auto* const step = std::get_if<StepReport>(&event.body);
  if (step != nullptr) {
    note_steps(now, step->step);
    last_step_ = step->step;
  }
  if (const auto* saved = std::get_if<CheckpointSaved>(&event.body))
    supervisor_.checkpoint_committed(saved->step);
  note_times(now, event.body);
  status_.on(event.body);
  sink_.on(event);
  if (step != nullptr) incidents_.step_finished(now);
  if (std::holds_alternative<CheckpointSaved>(event.body)) carry_out(now, supervisor_.grow(now));
}

void Coordinator::receive_from(Instant now, int node, const WorkerLeft& report) {
  if (takes_over_from(report.incarnation)) {
    incidents_.note_rank(report.note);
    evidence_.saw(report.note);
    if (is_failure(
            classify({.rank = report.end.rank, .signaled = report.end.signaled, .code = report.end.code})))
      evidence_.ended(node, report.end);
    if (lost_leader_) incidents_.note_end(now, report.end);
  }
  if (report.incarnation != supervisor_.incarnation() || !supervisor_.alive(report.end.rank)) return;
  const EndNote& note = report.end;
  const WorkerEnd end{.rank = note.rank, .signaled = note.signaled, .code = note.code};
  note_steps(now, report.note.step);
  incidents_.note_rank(report.note);
  evidence_.saw(report.note);
  if ((note.signaled || note.code != 0) && last_words_.size() < kMaxLastWords)
    last_words_[note.rank] = report.last_words;
  status_.forget(note.rank);
  if (progress_) progress_->forget(note.rank);
  const bool planned = note.by_agent && supervisor_.growing();
  if (is_failure(classify(end)) && !planned) {
    incidents_.begin(now, unix_time(), report.incarnation, "process exit");
    incidents_.note_end(now, note);
    evidence_.ended(node, note);
    evidence_.killed_for_memory(node, report.memory_kills);
    if (!note.by_agent)
      emit(WorkerExited{note.rank,
                        note.pid,
                        note.signaled ? 128 + note.code : note.code,
                        note.cause,
                        report.note.step,
                        report.note.phase});
  }
  carry_out(now, supervisor_.worker_ended(now, end));
}

void Coordinator::receive_from(Instant now, int, const RanksSeen& report) {
  const bool before = takes_over_from(report.incarnation);
  if (!before && report.incarnation != supervisor_.incarnation()) return;
  for (const RankNote& note : report.notes) {
    if (before) {
      incidents_.note_rank(note);
      evidence_.saw(note);
    }
    if (!supervisor_.alive(note.rank)) continue;
    incidents_.note_rank(note);
    evidence_.saw(note);
    status_.saw(now, note);
    if (progress_) progress_->sample(now, note);
    note_steps(now, note.step);
  }
}

void Coordinator::note_steps(Instant now, std::int64_t step) {
  supervisor_.step_finished(step);
  if (step > best_step_) silent_.step_finished(now);
  best_step_ = std::max(best_step_, step);
}

void Coordinator::receive_from(Instant now, int, const WorkerStalled& report) {
  if (report.incarnation != supervisor_.incarnation() || !supervisor_.alive(report.rank)) return;
  blame_stalled(now, report.rank, report.message);
}

void Coordinator::blame_stalled(Instant now, int rank, const std::string& text) {
  note(Severity::kError, text, rank);
  incidents_.begin(now, unix_time(), supervisor_.incarnation(), "progress watch");
  evidence_.overdue(rank);
  carry_out(now, supervisor_.worker_stalled(now, rank));
}

// Ranks whose phase takes longer than this run has taught. All are evidence; one of them starts the kill.
void Coordinator::watch_progress(Instant now) {
  if (!progress_ || !supervisor_.running() || silent_.any())
    return;  // silent nodes have a limit of their own
  const std::vector<int> overdue = progress_->overdue(now);
  if (overdue.empty()) return;
  for (const int rank : overdue)
    if (rank != overdue.front()) evidence_.overdue(rank);
  blame_stalled(
      now, overdue.front(), "it was stopped, or has stood still for longer than its phase may take");
}

void Coordinator::watch_time_limit(Instant now) {
  if (!time_limit_.take(now) || supervisor_.stopping()) return;
  emit(StopRequested{"time limit"});
  carry_out(now, supervisor_.stop_requested(now));
}

void Coordinator::note_times(Instant now, const EventBody& body) {
  const auto milliseconds = [](double ms) {
    return Milliseconds{static_cast<std::int64_t>(std::clamp(ms, 0.0, 1e9))};
  };
  if (std::holds_alternative<EvalReport>(body) && stepped_) time_limit_.evaluation_took(now - *stepped_);
  if (std::holds_alternative<StepReport>(body)) stepped_ = now;
  if (const auto* step = std::get_if<StepReport>(&body); step != nullptr && step->step_ms) {
    time_limit_.step_took(milliseconds(*step->step_ms));
    silent_.step_took(milliseconds(*step->step_ms));
    if (progress_) progress_->step_took(step->step, milliseconds(*step->step_ms));
  }
  if (const auto* saved = std::get_if<CheckpointSaved>(&body)) time_limit_.save_took(milliseconds(saved->ms));
}

// A scheduler signals every node at once: only a second signal on the same node is impatience. Where the
// others can go on without it, one node leaves; when as many are signaled as to leave too few, the job stops.
void Coordinator::receive_from(Instant now, int node, const StopAsked& report) {
  if (leaving_.contains(node)) return;
  emit(StopRequested{report.signal});
  if (node != options_.node && stops_[node] == 0 && supervisor_.can_spare(node)) {
    note(Severity::kWarning, fmt::format("{} leaves; the others go on (resilience.elastic)", name_of(node)));
    leaving_[node] = false;
    return carry_out(now, supervisor_.node_leaves(now, node));
  }
  const bool impatient = ++stops_[node] > 1;
  if (impatient || !supervisor_.stopping()) carry_out(now, supervisor_.stop_requested(now));
}

void Coordinator::receive_from(Instant, int, const NodeSaid& report) {
  emit(Note{report.severity, report.rank, report.text, report.output});
}

void Coordinator::receive_from(Instant now, int node, const StoreAsked& report) {
  if (report.incarnation != supervisor_.incarnation() || !supervisor_.alive(report.rank)) return;
  const auto request = decode_store_request(report.request);
  if (request)
    answer(store_.ask(now, {node, report.rank}, *request));
  else
    note(Severity::kWarning,
         "a store request that is not understood: " + request.error().message,
         report.rank);
}

void Coordinator::answer(const std::vector<AddressedReply>& replies) {
  for (const AddressedReply& reply : replies)
    orders_.emplace_back(reply.to.node,
                         StoreAnswer{supervisor_.incarnation(), reply.to.rank, encode(reply.reply)});
}

// ---- commands ------------------------------------------------------------------------------------------

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
  evidence_.forget(spec ? plan_run(*spec).mesh : MeshShape{});
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
        {unix_time(),
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
  evidence.before = FailurePlace{verdict_.culprits, verdict_.phase};
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
  incidents_.begin(now, unix_time(), supervisor_.incarnation(), "agent");
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

void Coordinator::order_all(const NodeOrder& order) {
  for (int node = 0; node < num_nodes(); ++node) orders_.emplace_back(node, order);
}

void Coordinator::emit(EventBody body) {
  status_.on(body);
  sink_.on(Event{unix_time(), supervisor_.incarnation(), std::move(body)});
}

void Coordinator::note(Severity severity, const std::string& text, int rank) {
  emit(Note{severity, rank, text});
}

std::vector<int> Coordinator::ranks_of(int node) const {
  const auto slot = std::find(slots_.begin(), slots_.end(), node) - slots_.begin();
  if (slot == std::ssize(slots_)) return {};
  std::vector<int> ranks(static_cast<std::size_t>(options_.procs_per_node));
  std::iota(ranks.begin(), ranks.end(), static_cast<int>(slot) * options_.procs_per_node);
  return ranks;
}

std::vector<int> Coordinator::all_ranks() const {
  std::vector<int> ranks(slots_.size() * static_cast<std::size_t>(options_.procs_per_node));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace llmtrain
