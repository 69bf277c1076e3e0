#include "llmtrain/schedule/draw.hpp"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "schedule_support.hpp"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

std::string drawing(const Schedule& schedule, int max_columns = 0) {
  return draw_text(schedule, simulate(schedule), max_columns);
}

std::string titled(const Schedule& schedule) {
  return schedule.name + " pp " + std::to_string(schedule.num_stages()) + " micro-batches " +
         std::to_string(schedule.num_micro_batches) + " virtual stages " +
         std::to_string(schedule.map.num_chunks()) + "\n" + drawing(schedule) + "\n";
}

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("draw: golden drawings") {
  std::string found;
  for (const char* name : {"gpipe", "1f1b", "zb-h1"})
    for (const auto& [pp, m] : {std::pair{1, 2}, {4, 2}, {4, 8}}) found += titled(make(name, pp, m, 1));
  for (const auto& [pp, m, v] : {std::tuple{2, 4, 2}, {2, 5, 2}, {4, 8, 2}, {2, 2, 3}, {4, 1, 2}})
    found += titled(make("interleaved", pp, m, v));
  for (const auto& [pp, m] : {std::pair{1, 2}, {2, 4}, {3, 2}, {4, 8}})
    found += titled(make("zbv", pp, m, 2));

  const std::string path = LLMTRAIN_SOURCE_DIR "/tests/golden/schedules.txt";
  if (const char* update = std::getenv("LLMTRAIN_UPDATE_GOLDENS"); update && std::string(update) == "1")
    std::ofstream(path) << found;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  CHECK(found == golden.str());
}

TEST_CASE("draw: idle units, long actions and two-digit numbers keep their columns") {
  CHECK(drawing(make("1f1b", 2, 2, 1)) ==
        "time     0              5\n"
        "stage 0  F0 F1 .  .  B0 -- .  B1 --\n"
        "stage 1  .  F0 B0 -- F1 B1 -- .  .\n");
  CHECK(drawing(make("gpipe", 1, 11, 1)).starts_with("time     0                   5                   10"));
}

TEST_CASE("draw: a narrow terminal gets the drawing in bands that begin with a number") {
  const Schedule schedule = make("1f1b", 2, 2, 1);
  CHECK(drawing(schedule, 9 + 5 * 3) ==
        "time     0\n"
        "stage 0  F0 F1 .  .  B0\n"
        "stage 1  .  F0 B0 -- F1\n"
        "\n"
        "time     5\n"
        "stage 0  -- .  B1 --\n"
        "stage 1  B1 -- .  .\n");
  CHECK(drawing(schedule, 1) == drawing(schedule, 9 + 5 * 3));
  CHECK(drawing(schedule, 9 + 9 * 3) == drawing(schedule));
}

TEST_CASE("draw: an SVG has one box for each action, and no markup of a stranger's making") {
  Schedule schedule = make("zbv", 2, 3, 2);
  schedule.name = "a<b>&\"\n";
  const std::string svg = draw_svg(schedule, simulate(schedule));
  CHECK(count(svg, "<title>") == 2 * 3 * 2 * 3);
  CHECK(svg.find("a&lt;b&gt;&amp;&quot;?: 2 stages") != std::string::npos);
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.ends_with("</svg>\n"));
}
