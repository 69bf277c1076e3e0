#pragma once

#include <string>

#include "llmtrain/schedule/schedule.hpp"
#include "llmtrain/schedule/timeline.hpp"

// A schedule as a picture: stages from top to bottom, time from left to right, one cell a unit.
//
// Actions are named as in CSV files; the virtual stage is left out where a stage has only one. Golden files
// hold these drawings, so their layout is an interface.
namespace llmtrain {

// For a terminal. An action longer than a unit goes on in dashes, a dot is a unit without work. A drawing
// wider than `max_columns` goes on below itself; 0: however wide it is.
std::string draw_text(const Schedule& schedule, const Timeline& timeline, int max_columns = 0);

// One SVG file that needs nothing else.
std::string draw_svg(const Schedule& schedule, const Timeline& timeline);

}  // namespace llmtrain
