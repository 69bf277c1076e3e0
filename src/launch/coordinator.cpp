#include "llmtrain/launch/coordinator.hpp"

#include <algorithm>
#include <numeric>

#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/job/run_plan.hpp"

#include "poll_timeout.hpp"

namespace llmtrain {

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
  if (options_.stragglers) stragglers_.emplace(*options_.stragglers);
  std::iota(slots_.begin(), slots_.end(), 0);
  last_step_ = std::max<std::int64_t>(options_.supervisor.committed_step, 0);
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

void Coordinator::order_all(const NodeOrder& order) {
  for (int node = 0; node < num_nodes(); ++node) orders_.emplace_back(node, order);
}

void Coordinator::emit(EventBody body) {
  status_.on(body);
  sink_.on(Event{clock_.now(), supervisor_.incarnation(), std::move(body)});
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
