#include "llmtrain/launch/incident_recorder.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/file_operations.hpp"
#include "llmtrain/diagnosis/verdict_text.hpp"
#include "llmtrain/launch/run_files.hpp"

namespace llmtrain {

void IncidentRecorder::begin(Instant now, double unix_time, int incarnation, const std::string& detected_by) {
  if (open_) return;
  open_ = true;
  recovering_ = false;
  began_ = now;
  incident_ = {};
  incident_.incarnation = incarnation;
  incident_.time = unix_time;
  incident_.detected_by = detected_by;
}

void IncidentRecorder::note_rank(RankNote note) {
  const auto known = ranks_.find(note.rank);
  if (known != ranks_.end()) fill_in(note, known->second);
  ranks_.insert_or_assign(note.rank, std::move(note));
}

void IncidentRecorder::note_end(Instant now, EndNote end) {
  end.at_ms = static_cast<double>((now - began_).count());
  incident_.chain.push_back(std::move(end));
}

Incident IncidentRecorder::close(Instant now,
                                 std::optional<int> first_rank,
                                 const std::string& action,
                                 const std::optional<FailureVerdict>& verdict) {
  for (const auto& [rank, note] : ranks_) incident_.black_boxes.push_back(note);
  if (verdict) record(*verdict, incident_);
  if (incident_.first_cause.empty())
    incident_.first_cause = first_rank ? std::vector<int>{*first_rank} : laggards(incident_.black_boxes);
  incident_.summary = summarize();
  incident_.stop_ms = static_cast<double>((now - began_).count());
  incident_.action = action;
  const auto number = next_incident(files_, run_);
  incident_.number = number ? *number : 0;
  open_ = false;
  recovering_ = true;
  write();
  return incident_;
}

void IncidentRecorder::mark(Instant now, const std::string& text) {
  constexpr std::size_t kMostMarks = 256;
  if ((open_ || recovering_) && incident_.events.size() < kMostMarks)
    incident_.events.push_back({static_cast<double>((now - began_).count()), text});
}

void IncidentRecorder::resumed(std::int64_t step) {
  if (!recovering_) return;
  std::int64_t reached = step;
  for (const RankNote& note : incident_.black_boxes) reached = std::max(reached, note.step);
  incident_.resumed_step = step;
  incident_.lost_steps = reached - step;
  write();
}

void IncidentRecorder::step_finished(Instant now) {
  if (!recovering_) return;
  recovering_ = false;
  incident_.first_step_ms = static_cast<double>((now - began_).count());
  write();
}

void IncidentRecorder::write() {
  const auto made = make_directories(files_, run_.incidents().string());
  const auto written =
      made ? write_file_durably(files_, run_.incident(incident_.number).string(), to_json(incident_)) : made;
  if (!written && !write_failure_) write_failure_ = written.error();
}

// "rank 1: signal 9 (SIGKILL), in backward of step 8, in all_reduce 17 of dp".
std::string IncidentRecorder::summarize() const {
  if (incident_.first_cause.empty()) return "no rank failed by itself, and the black boxes name none";
  const int rank = incident_.first_cause.front();
  std::string who = fmt::format("rank {}", fmt::join(incident_.first_cause, ", "));
  const auto end = std::find_if(incident_.chain.begin(), incident_.chain.end(), [rank](const EndNote& note) {
    return note.rank == rank && !note.by_agent;
  });
  std::string text =
      who + (end != incident_.chain.end() ? ": " + end->cause : ": others waited for it in vain");
  const auto note = ranks_.find(rank);
  if (note == ranks_.end()) return text;
  text += ", " + where(note->second);
  if (const auto& last = note->second.collective; last && !last->finished)
    text += fmt::format(", in {} {} of {}", last->op, last->sequence, last->group);
  return text;
}

}  // namespace llmtrain
