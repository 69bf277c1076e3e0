#pragma once

#include <string>

#include "llmtrain/report/run_history.hpp"

// A run's history as a person reads it on a terminal, and as a program reads it.
//
// Text never holds control characters, whatever the files of the run say. Keys of the JSON are a contract:
// none is renamed or removed while `schema` stays what it is.
namespace llmtrain {

inline constexpr int kReportSchema = 1;

std::string report_text(const RunHistory& history);
std::string report_json(const RunHistory& history);

// Shared by the renderings. Times are UTC.
std::string time_label(double unix_seconds);                      // "2026-03-01 12:00:05"
std::string seconds_label(double seconds);                        // "0.42 s", "12.3 s", "3m12s"
std::string seconds_label(const std::optional<double>& seconds);  // "-" when not known
std::string verdict_line(const RunHistory& history);              // how the run stands, in a sentence
std::string plain(std::string text);                              // without control characters

}  // namespace llmtrain
