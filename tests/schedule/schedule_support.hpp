#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "llmtrain/schedule/generate.hpp"

#include "tests/support/catch.hpp"

// Schedules for tests: one by name, and all that the proof goes over.
namespace llmtrain::test {

inline Schedule make(const std::string& name, int pp, int micro_batches, int virtual_stages) {
  auto schedule = generate({name, pp, micro_batches, virtual_stages});
  INFO(name << " pp " << pp << " micro-batches " << micro_batches << " virtual stages " << virtual_stages);
  if (!schedule) FAIL(to_string(schedule.error()));
  return std::move(schedule).value();
}

// Every named schedule (or only one) for pp 1-8, micro-batches 1-32 and each of 1-4 virtual stages it takes.
inline void for_each_schedule(const std::function<void(const Schedule&)>& visit, std::string_view only = "") {
  struct Range {
    const char* name;
    int least_chunks;
    int most_chunks;
  };
  for (const Range& range :
       {Range{"gpipe", 1, 1}, {"1f1b", 1, 1}, {"interleaved", 2, 4}, {"zb-h1", 1, 1}, {"zbv", 2, 2}}) {
    if (!only.empty() && only != range.name) continue;
    for (int pp = 1; pp <= 8; ++pp)
      for (int m = 1; m <= 32; ++m)
        for (int v = range.least_chunks; v <= range.most_chunks; ++v) visit(make(range.name, pp, m, v));
  }
}

}  // namespace llmtrain::test
