#include "llmtrain/monitor/rank_note.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace llmtrain {
namespace {

// Another process may be writing: nothing in the box is trusted to be a terminated text or a known number.
template <std::size_t N>
std::string text_of(const std::array<char, N>& characters) {
  std::string text(characters.data(), strnlen(characters.data(), N));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

std::string phase_name(Phase phase) {
  return phase <= Phase::kFinished ? std::string(to_string(phase)) : "unknown";
}

CollectiveNote note_of(std::uint64_t number, const CollectiveRecord& record, bool finished) {
  return {number,
          text_of(record.group),
          text_of(record.op),
          record.sequence.load(),
          record.bytes.load(),
          finished};
}

CollectiveNote in_ring(const BlackBox& box, std::uint64_t number) {
  const CollectiveRecord& record = box.ring[(number - 1) % BlackBox::kRingSize];
  return note_of(number, record, record.finished_ns.load() != 0);
}

// Absent while the rank is writing them.
std::optional<CostNote> costs_of(const StepCosts& costs) {
  const auto ms = [](const std::atomic<std::int64_t>& ns) { return static_cast<double>(ns.load()) * 1e-6; };
  CostNote note;
  note.step = costs.step.load();
  note.total_ms = ms(costs.total_ns);
  note.compute_ms = ms(costs.compute_ns);
  note.data_ms = ms(costs.data_ns);
  note.sending_ms = ms(costs.sending_ns);
  if (note.step == 0 || costs.writing.load() != note.step) return std::nullopt;
  return note;
}

}  // namespace

void fill_in(RankNote& note, const RankNote& earlier) {
  if (note.stack.empty()) note.stack = earlier.stack;
  if (note.process_state.empty()) note.process_state = earlier.process_state;
  if (note.wait_channel.empty()) note.wait_channel = earlier.wait_channel;
}

RankNote look_at(int rank, const BlackBox& box, std::int64_t now_ns) {
  RankNote note;
  note.rank = rank;
  note.step = box.step.load();
  note.phase = phase_name(box.phase.load());
  note.micro_batch = box.micro_batch.load();
  const std::int64_t heartbeat = box.heartbeat_ns.load();
  if (heartbeat > 0) note.heartbeat_age_s = static_cast<double>(now_ns - heartbeat) * 1e-9;
  note.costs = costs_of(box.costs);
  const std::uint64_t count = box.num_collectives.load();
  if (count == 0) return note;
  note.collective = in_ring(box, count);
  if (const std::uint64_t number = box.standing_number.load(); number != 0)
    note.waiting = note_of(number, box.standing, false);
  const std::uint64_t oldest = count > BlackBox::kRingSize ? count - BlackBox::kRingSize + 1 : 1;
  for (std::uint64_t number = count; number >= oldest; --number) {
    CollectiveNote call = in_ring(box, number);
    const auto same = [&](const CollectiveNote& known) { return known.group == call.group; };
    if (std::none_of(note.groups.begin(), note.groups.end(), same)) note.groups.push_back(std::move(call));
  }
  return note;
}

}  // namespace llmtrain
