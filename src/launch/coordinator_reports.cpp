// What nodes report: workers that ended, ranks that were seen, words, steps, stops, questions to the store.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/launch/coordinator.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxLastWords = 256;  // ranks; those that failed first come first

bool is_failure(ExitClass kind) {
  return kind == ExitClass::kCrash || kind == ExitClass::kFinal || kind == ExitClass::kLostPeer;
}

}  // namespace

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
  // One file, one clock: those of hosts differ, and jump.
  event.time = node == options_.node ? clock_.from_host(event.time) : clock_.now();
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
    incidents_.begin(now, clock_.now(), report.incarnation, "process exit");
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
    if (stragglers_)
      for (const StragglerChange& change : stragglers_->sample(note)) report_straggler(change);
    note_steps(now, note.step);
  }
}

void Coordinator::report_straggler(const StragglerChange& change) {
  const std::string ranks = fmt::format("{}", fmt::join(change.ranks, ", "));
  const auto known = hosts_.find(change.node);
  const std::string host = known == hosts_.end() ? "" : known->second;
  const std::string cause(to_string(change.cause));
  if (change.over)
    emit(StragglerOver{ranks, change.node, host, cause, change.step});
  else
    emit(StragglerFound{
        ranks, change.node, host, cause, change.step, change.ms, change.peers_ms, change.step_ms});
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
  incidents_.begin(now, clock_.now(), supervisor_.incarnation(), "progress watch");
  evidence_.overdue(rank);
  carry_out(now, supervisor_.worker_stalled(now, rank));
}

// Ranks whose phase takes longer than this run has taught. All are evidence; one of them starts the kill.
void Coordinator::watch_progress(Instant now) {
  if (!progress_ || !supervisor_.running() || silent_.any())
    return;  // silent nodes have a limit of their own
  const std::vector<int> overdue = progress_->overdue();
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

}  // namespace llmtrain
