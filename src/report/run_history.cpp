#include "llmtrain/report/run_history.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "llmtrain/report/line_reader.hpp"
#include "llmtrain/report/lineage.hpp"

namespace llmtrain {
namespace {

constexpr std::size_t kMaxIncarnations = 100'000;
constexpr std::size_t kMaxNotes = 1000;
constexpr std::size_t kMaxIncidents = 10'000;

// The records of one file, one ahead.
template <class Row>
class Records {
 public:
  using Parse = std::optional<Row> (*)(std::string_view);
  Records(LineReader reader, Parse parse) : reader_(std::move(reader)), parse_(parse) { advance(); }

  const std::optional<Row>& front() const { return front_; }
  void advance() {
    front_.reset();
    std::string_view line;
    while (!front_ && reader_.next(line)) {
      front_ = parse_(line);
      if (!front_ && !line.empty()) ++bad_;
    }
  }
  void count(InputCounts& input) const {
    input.bad_lines += bad_ + reader_.too_long();
    input.torn_files += reader_.torn() ? 1 : 0;
  }

 private:
  LineReader reader_;
  Parse parse_;
  std::optional<Row> front_;
  std::int64_t bad_ = 0;
};

Result<Records<EventRow>> open_events(FileSystem& files, const RunDir& run) {
  LLMTRAIN_ASSIGN(reader, LineReader::open(files, run.events().string()));
  return Records<EventRow>(std::move(reader), event_row);
}

// From which steps incarnations have started: a first pass over the events alone.
Result<std::vector<std::int64_t>> resume_steps(FileSystem& files, const RunDir& run) {
  LLMTRAIN_ASSIGN(events, open_events(files, run));
  std::vector<std::int64_t> steps;
  for (; events.front(); events.advance())
    if (events.front()->kind == EventKind::kRunStarted && steps.size() < kMaxIncarnations)
      steps.push_back(events.front()->step);
  return steps;
}

class Collector {
 public:
  Collector(RunHistory& history, TimeLedger& ledger) : history_(history), ledger_(ledger) {}

  void on(const StepRow& row) {
    Incarnation& incarnation = touch(row.incarnation, row.time);
    if (incarnation.first_step < 0) incarnation.first_step = row.step - 1;
    incarnation.last_step = row.step;
    ledger_.step(
        row.incarnation, row.time, row.step, row.step_ms ? std::optional(*row.step_ms / 1e3) : std::nullopt);
    const auto x = static_cast<double>(row.step);
    if (row.loss) history_.loss.add(x, *row.loss, row.incarnation);
    if (row.tok_s) history_.rate.add(x, *row.tok_s, row.incarnation);
    if (open_incident_ != nullptr && row.incarnation > open_incident_->incarnation) {
      if (!open_incident_->first_step_s) open_incident_->first_step_s = row.time - open_incident_->time;
      open_incident_ = nullptr;
    }
    history_.newest_step = row;
    history_.finish.reset();
    ++history_.input.steps;
  }

  void on(IncidentRecord& incident) {
    const auto unnoticed = ledger_.failed(incident.incarnation, incident.time);
    if (!incident.detect_s) incident.detect_s = unnoticed ? unnoticed : unnoticed_;
    unnoticed_.reset();
    failed_ = incident.incarnation;
    const Incarnation& incarnation = touch(incident.incarnation, incident.time);
    incident.reached_step = std::max(incident.reached_step, incarnation.last_step);
    open_incident_ = &incident;
  }

  void on(const EventRow& event) {
    ++history_.input.events;
    if (event.kind == EventKind::kUnknown) ++history_.input.unknown_events;
    Incarnation& incarnation = touch(event.incarnation, event.time);
    if (event.kind != EventKind::kRunFinished && event.incarnation > finished_) history_.finish.reset();
    switch (event.kind) {
      case EventKind::kRunStarted: return started(event, incarnation);
      case EventKind::kEval:
        ++history_.evaluations;
        history_.newest_eval_loss = event.loss;
        if (event.loss) history_.eval.add(static_cast<double>(event.step), *event.loss, event.incarnation);
        return ledger_.evaluated(event.incarnation, event.time);
      case EventKind::kCheckpointSaved:
        ++history_.checkpoints_saved;
        history_.checkpoint_bytes += event.bytes;
        history_.newest_saved_step = event.step;
        return ledger_.saved(event.incarnation, event.time, event.ms / 1e3);
      case EventKind::kCheckpointLoaded:
        if (recovers(event) && !open_incident_->load_s) open_incident_->load_s = event.ms / 1e3;
        return ledger_.seen(event.incarnation, event.time);
      case EventKind::kCheckpointRejected:
        keep(history_.rejected, {event.time, event.incarnation, event.path, event.text});
        return ledger_.seen(event.incarnation, event.time);
      case EventKind::kWorkerExited: return failed(event);
      case EventKind::kRestart:
        (failed_ >= 0 && failed_ < event.incarnation ? incarnations_[failed_] : incarnation).ended =
            "restarted: " + event.text;  // it may carry the number of the next one already
        return ledger_.restarting(event.incarnation, event.time);
      case EventKind::kStopRequested:
        keep(history_.stops, {event.time, event.incarnation, event.text});
        return ledger_.seen(event.incarnation, event.time);
      case EventKind::kStraggler:
        keep(history_.stragglers, straggler_note(event));
        return ledger_.seen(event.incarnation, event.time);
      case EventKind::kStragglerOver:
        for (StragglerNote& straggler : history_.stragglers)
          if (straggler.until_step < 0 && ends(event, straggler)) straggler.until_step = event.step;
        return ledger_.seen(event.incarnation, event.time);
      case EventKind::kRunFinished: return finished(event, incarnation);
      case EventKind::kNote:
      case EventKind::kTotals:
      case EventKind::kUnknown: return ledger_.seen(event.incarnation, event.time);
    }
  }

  std::map<int, Incarnation>& incarnations() { return incarnations_; }

 private:
  Incarnation& touch(int number, double time) {
    if (incarnations_.size() >= kMaxIncarnations && !incarnations_.contains(number)) {
      ++history_.input.left_out;
      number = incarnations_.rbegin()->first;
    }
    const auto [found, is_new] = incarnations_.try_emplace(number);
    Incarnation& incarnation = found->second;
    if (is_new) {
      incarnation.number = number;
      incarnation.start = incarnation.end = time;
    }
    incarnation.end = std::max(incarnation.end, time);
    if (history_.start == 0) history_.start = time;
    history_.end = std::max(history_.end, time);
    return incarnation;
  }

  template <class Note>
  void keep(std::vector<Note>& notes, Note note) {
    if (notes.size() < kMaxNotes)
      notes.push_back(std::move(note));
    else
      ++history_.input.left_out;
  }

  bool recovers(const EventRow& event) const {
    return open_incident_ != nullptr && event.incarnation > open_incident_->incarnation;
  }

  void started(const EventRow& event, Incarnation& incarnation) {
    incarnation.first_step = event.step;
    incarnation.world_size = history_.world_size = event.world_size;
    incarnation.layout = history_.layout = event.layout;
    history_.name = event.name;
    history_.total_steps = event.total_steps;
    if (recovers(event) && !open_incident_->rendezvous_s) {
      const double known = open_incident_->stop_s.value_or(0) + open_incident_->load_s.value_or(0);
      open_incident_->rendezvous_s = std::max(0.0, event.time - open_incident_->time - known);
    }
    ledger_.seen(event.incarnation, event.time);
  }

  void failed(const EventRow& event) {
    failed_ = event.incarnation;
    if (const auto unnoticed = ledger_.failed(event.incarnation, event.time)) unnoticed_ = unnoticed;
  }

  void finished(const EventRow& event, Incarnation& incarnation) {
    finished_ = event.incarnation;
    history_.finish = FinishNote{event.time, event.code, event.step, event.text};
    incarnation.ended = fmt::format("{} (exit code {})", event.text, event.code);
    ledger_.finished(event.incarnation, event.time);
  }

  RunHistory& history_;
  TimeLedger& ledger_;
  std::map<int, Incarnation> incarnations_;
  IncidentRecord* open_incident_ = nullptr;  // whose recovery is not complete
  std::optional<double> unnoticed_;          // of a failure whose incident has not come yet
  int failed_ = -1;                          // the newest incarnation that failed
  int finished_ = -1;
};

// All records in the order in which they were written: incarnations, then time.
void merge(Collector& collector,
           Records<StepRow>& steps,
           Records<EventRow>& events,
           std::vector<IncidentRecord>& incidents) {
  using Key = std::tuple<int, double, int>;
  const auto last = Key{std::numeric_limits<int>::max(), 0, 9};
  auto incident = incidents.begin();
  while (steps.front() || events.front() || incident != incidents.end()) {
    const Key step = steps.front() ? Key{steps.front()->incarnation, steps.front()->time, 0} : last;
    const Key failure = incident != incidents.end() ? Key{incident->incarnation, incident->time, 1} : last;
    const Key event = events.front() ? Key{events.front()->incarnation, events.front()->time, 2} : last;
    if (steps.front() && step <= failure && step <= event) {
      collector.on(*steps.front());
      steps.advance();
    } else if (incident != incidents.end() && failure <= event) {
      collector.on(*incident++);
    } else {
      collector.on(*events.front());
      events.advance();
    }
  }
}

void conclude(RunHistory& history, std::map<int, Incarnation>& incarnations, const TimeLedger& ledger) {
  std::vector<IncarnationSpan> spans;
  for (const auto& [number, incarnation] : incarnations)
    spans.push_back({incarnation.first_step, incarnation.last_step});
  const std::vector<std::int64_t> limits = accepted_until(spans);
  std::map<int, std::int64_t> by_number;
  std::size_t next = 0;
  for (auto& [number, incarnation] : incarnations) {
    const std::int64_t limit = limits[next++];
    by_number[number] = limit;
    std::tie(incarnation.productive_steps, incarnation.productive_s) = ledger.productive_of(number, limit);
    history.incarnations.push_back(std::move(incarnation));
  }
  history.ledger = ledger.totals(by_number);
}

}  // namespace

StragglerNote straggler_note(const EventRow& found) {
  StragglerNote note;
  note.time = found.time;
  note.incarnation = found.incarnation;
  note.step = found.step;
  note.ranks = found.ranks;
  note.node = found.node;
  note.host = found.host;
  note.cause = found.text;
  note.ms = found.ms;
  note.peers_ms = found.peers_ms;
  note.step_ms = found.step_ms;
  return note;
}

// Ranks that were found together may keep up again one after the other: the first of them counts.
bool ends(const EventRow& over, const StragglerNote& straggler) {
  return over.incarnation == straggler.incarnation && over.node == straggler.node &&
         over.text == straggler.cause && over.step >= straggler.step;
}

Result<RunHistory> read_history(FileSystem& files, const RunDir& run, const HistoryOptions& options) {
  RunHistory history;
  history.run_dir = run.root().string();
  LLMTRAIN_ASSIGN(resumes, resume_steps(files, run));
  LLMTRAIN_ASSIGN(events, open_events(files, run));
  LLMTRAIN_ASSIGN(metrics, LineReader::open(files, run.metrics().string()));
  Records<StepRow> steps(std::move(metrics), step_row);
  history.incidents = read_incidents(files, run, kMaxIncidents, history.input.bad_incidents);
  TimeLedger ledger(std::move(resumes), options.started_at);
  Collector collector(history, ledger);
  merge(collector, steps, events, history.incidents);
  steps.count(history.input);
  events.count(history.input);
  auto& incarnations = collector.incarnations();
  if (options.now && !incarnations.empty() && !history.finish) {
    ledger.seen(incarnations.rbegin()->first, *options.now);
    history.end = std::max(history.end, *options.now);
  }
  conclude(history, incarnations, ledger);
  return history;
}

}  // namespace llmtrain
