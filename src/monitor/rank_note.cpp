#include "llmtrain/monitor/rank_note.hpp"

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

}  // namespace

RankNote look_at(int rank, const BlackBox& box, std::int64_t now_ns) {
  RankNote note;
  note.rank = rank;
  note.step = box.step.load();
  note.phase = phase_name(box.phase.load());
  note.micro_batch = box.micro_batch.load();
  const std::int64_t heartbeat = box.heartbeat_ns.load();
  if (heartbeat > 0) note.heartbeat_age_s = static_cast<double>(now_ns - heartbeat) * 1e-9;
  const std::uint64_t count = box.num_collectives.load();
  if (count == 0) return note;
  const CollectiveRecord& last = box.ring[(count - 1) % BlackBox::kRingSize];
  note.collective = CollectiveNote{count,
                                   text_of(last.group),
                                   text_of(last.op),
                                   last.sequence.load(),
                                   last.bytes.load(),
                                   last.finished_ns.load() != 0};
  return note;
}

}  // namespace llmtrain
