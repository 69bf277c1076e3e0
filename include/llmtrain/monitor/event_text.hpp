#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "llmtrain/monitor/events.hpp"

// How events read for a person: the step line, one sentence for every other event, and short numbers.
//
// Plain text without newline, colour or control characters, whatever a path or a message holds.
namespace llmtrain {

// step=120 loss=3.4182 grad_norm=0.91 lr=2.4e-4 tokens=1.05M tok_s=18432 step_ms=412 mfu=0.38 mem_gb=31.2
// Numbers that are not known or not finite read `null`.
std::string step_line(const StepReport& report);

// One line for any event; a step gives its step line.
std::string event_line(const Event& event);

// "rank 2 on node 1 (gpu-17)", "ranks 2, 3 on node 1 (gpu-17)"
std::string straggler_name(const std::string& ranks, int node, const std::string& host);

std::string short_count(std::int64_t n);      // 950, 1.05M, 100B
std::string short_exponent(double value);     // 2.4e-4
std::string short_bytes(std::int64_t bytes);  // 512 B, 1.5 MB
std::string short_duration(double seconds);   // 42s, 3m12s, 5h07m, 12d03h

}  // namespace llmtrain
