#pragma once

#include <string>
#include <string_view>

#include "llmtrain/report/run_history.hpp"

// A run's history as one page that needs nothing else: no script, no font, no picture from anywhere.
//
// Every text that comes out of the run's files is escaped, and the page forbids scripts to itself. Light and
// dark follow the reader's system.
namespace llmtrain {

std::string report_html(const RunHistory& history);

// `text` as it may stand in an element or a quoted attribute: markup escaped, bytes that are no UTF-8 and
// control characters replaced.
std::string html_text(std::string_view text);

// A curve with its axes as an <svg>; incidents are marked. Empty when there is nothing to draw.
struct PlotLabels {
  std::string title;
  std::string unit;
};
std::string curve_svg(const PlotLabels& labels,
                      const ThinnedSeries& series,
                      const ThinnedSeries* points,
                      const std::vector<IncidentRecord>& incidents);
// The ledger as one stacked bar with its legend.
std::string ledger_svg(const LedgerTotals& ledger);

}  // namespace llmtrain
