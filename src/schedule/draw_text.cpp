#include <algorithm>

#include <fmt/format.h>

#include "llmtrain/core/division.hpp"
#include "llmtrain/schedule/draw.hpp"

#include "label.hpp"

namespace llmtrain {
namespace {

constexpr std::int64_t kTickUnits = 5;  // a number above every fifth unit

struct Grid {
  std::size_t title_width = 0;  // of "stage 12"
  std::size_t cell_width = 0;   // with the blank behind it
  std::int64_t units = 0;
};

std::string row_of(const Schedule& schedule, int stage, const Timeline& timeline, const Grid& grid) {
  std::string row;
  std::int64_t now = 0;
  const auto put = [&](std::string_view text) { row += fmt::format("{:<{}}", text, grid.cell_width); };
  const auto rest_until = [&](std::int64_t time) {
    for (; now < time; ++now) put(".");
  };
  for (const TimedAction& timed : timeline.stages[static_cast<std::size_t>(stage)]) {
    rest_until(timed.begin);
    if (timed.end > timed.begin) put(label_of(schedule, stage, timed.action));
    for (now = timed.begin + 1; now < timed.end; ++now) put(std::string(grid.cell_width - 1, '-'));
    now = timed.end;
  }
  rest_until(timeline.makespan);
  return row;
}

std::string ticks(const Grid& grid) {
  std::string row(static_cast<std::size_t>(grid.units) * grid.cell_width, ' ');
  for (std::int64_t time = 0; time < grid.units; time += kTickUnits) {
    const std::string number = std::to_string(time);
    const std::size_t at = static_cast<std::size_t>(time) * grid.cell_width;
    row.replace(at, std::min(number.size(), row.size() - at), number, 0, row.size() - at);
  }
  return row;
}

// How many units fit beside the titles.
std::int64_t units_per_band(const Grid& grid, int max_columns) {
  if (max_columns <= 0) return grid.units;
  const std::int64_t room = max_columns - static_cast<std::int64_t>(grid.title_width);
  const std::int64_t fitting =
      floor_div(std::max<std::int64_t>(room, 0), static_cast<std::int64_t>(grid.cell_width));
  if (fitting >= grid.units) return grid.units;
  return std::max(kTickUnits, floor_div(fitting, kTickUnits) * kTickUnits);  // bands begin with a number
}

void put_line(std::string& out, std::string_view title, std::string_view cells, const Grid& grid) {
  out += fmt::format("{:<{}}{}", title, grid.title_width, cells);
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

}  // namespace

std::string draw_text(const Schedule& schedule, const Timeline& timeline, int max_columns) {
  const int num_stages = schedule.num_stages();
  const Grid grid{fmt::format("stage {}  ", num_stages - 1).size(),
                  longest_label(schedule, timeline) + 1,
                  timeline.makespan};
  const std::string numbers = ticks(grid);
  std::vector<std::string> rows;
  rows.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) rows.push_back(row_of(schedule, stage, timeline, grid));

  std::string out;
  const std::int64_t band = std::max<std::int64_t>(1, units_per_band(grid, max_columns));
  for (std::int64_t from = 0; from < grid.units; from += band) {
    const std::size_t begin = static_cast<std::size_t>(from) * grid.cell_width;
    const std::size_t length = static_cast<std::size_t>(band) * grid.cell_width;
    if (from > 0) out += '\n';
    put_line(out, "time", std::string_view(numbers).substr(begin, length), grid);
    for (int stage = 0; stage < num_stages; ++stage)
      put_line(out,
               fmt::format("stage {}", stage),
               std::string_view(rows[static_cast<std::size_t>(stage)]).substr(begin, length),
               grid);
  }
  return out;
}

}  // namespace llmtrain
