#include "llmtrain/report/lineage.hpp"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr std::size_t kNobody = ~std::size_t{0};

// Who wrote the checkpoint of step `need`: the latest before `head` that started below it and got there. When
// nobody did (the last lines of its metrics are lost), the one that came closest.
std::size_t ancestor(const std::vector<IncarnationSpan>& spans, std::size_t head, std::int64_t need) {
  std::size_t closest = kNobody;
  for (std::size_t i = head; i-- > 0;) {
    const IncarnationSpan& span = spans[i];
    if (span.first_step < 0 || span.first_step >= need) continue;
    if (span.last_step >= need) return i;
    if (closest == kNobody || span.last_step > spans[closest].last_step) closest = i;
  }
  return closest;
}

}  // namespace

std::vector<std::int64_t> accepted_until(const std::vector<IncarnationSpan>& spans) {
  std::vector<std::int64_t> limits(spans.size(), kNoSteps);
  const auto newest =
      std::find_if(spans.rbegin(), spans.rend(), [](const auto& span) { return span.first_step >= 0; });
  if (newest == spans.rend()) return limits;
  auto head = static_cast<std::size_t>(spans.rend() - newest) - 1;
  limits[head] = kAllSteps;
  while (spans[head].first_step > 0) {
    const std::int64_t need = spans[head].first_step;
    head = ancestor(spans, head, need);
    if (head == kNobody) break;
    limits[head] = need;
  }
  return limits;
}

}  // namespace llmtrain
