#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/schedule/csv.hpp"
#include "llmtrain/schedule/in_flight.hpp"
#include "llmtrain/schedule/timeline.hpp"

using namespace llmtrain;

// Any bytes as a schedule: refused with printable words, or a schedule that runs to its end, keeps nothing in
// flight for ever, and survives being written and read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto schedule =
      parse_schedule_csv(std::string_view(reinterpret_cast<const char*>(data), size), "input");
  if (!schedule) {
    if (schedule.error().message.size() <= 7) std::abort();
    for (const char c : schedule.error().message)
      if (c != '\n' && (c < 0x20 || c > 0x7e)) std::abort();
    return 0;
  }
  const Timeline timeline = simulate(*schedule);
  if (timeline.makespan <= 0 || timeline.idle() < 0) std::abort();
  for (const InFlight& stage : in_flight(*schedule))
    if (stage.peak < 1 || stage.peak > schedule->num_micro_batches * schedule->map.num_chunks()) std::abort();
  const std::string written = to_csv(*schedule);
  const auto again = parse_schedule_csv(written, "written");
  if (!again || again->programs != schedule->programs || to_csv(*again) != written) std::abort();
  return 0;
}
