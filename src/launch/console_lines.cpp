#include "llmtrain/launch/console_lines.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "llmtrain/diagnosis/stack_request.hpp"

namespace llmtrain {
namespace {

constexpr ConsoleLines::Instant kSecond{1000};

}  // namespace

void ConsoleLines::line(int rank, int local_rank, WorkerStream stream, std::string_view text) {
  const bool alarming = is_alarming(text);
  const bool chosen = stream == WorkerStream::kOut ? tee_.out(local_rank) : tee_.err(local_rank);
  if ((!alarming && !chosen) || text.starts_with(kStackPrefix)) return;
  if (room_ == 0) {
    ++left_out_;
    return;
  }
  --room_;
  std::string shown = printable_line(text.substr(0, kMaxBytes));
  if (text.size() > kMaxBytes) shown += " ...";
  lines_.push_back({alarming ? Severity::kWarning : Severity::kInfo, rank, std::move(shown), true});
}

std::vector<NodeSaid> ConsoleLines::take(Instant now, bool last) {
  if (now >= filled_ + kSecond) {
    const std::int64_t seconds = (now - filled_) / kSecond;
    room_ = static_cast<int>(std::min<std::int64_t>(kBurst, room_ + seconds * kLinesPerSecond));
    filled_ = now;
  }
  std::vector<NodeSaid> said = std::exchange(lines_, {});
  if (left_out_ == 0 || (!last && said_ && now < *said_ + kSecond)) return said;
  said.push_back({Severity::kInfo,
                  -1,
                  fmt::format("{} more lines of output are in {}", std::exchange(left_out_, 0), directory_),
                  true});
  said_ = now;
  return said;
}

}  // namespace llmtrain
