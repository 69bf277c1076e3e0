#pragma once

#include <string>

#include "llmtrain/job/verdict.hpp"
#include "llmtrain/spec/job_spec.hpp"

// What `llmtrain prove` hands out: the layout, what was compared, and the verdict, for people and programs.
namespace llmtrain {

struct Certificate {
  JobSpec original;   // the user's, resolved
  JobSpec proved;     // what was run
  std::string plant;  // name of the bug that was planted; empty = none
  Verdict verdict;
};

std::string to_text(const Certificate& certificate);

// {layout, shrunk_from, ranks, steps, max_rel_diff, tolerance, ok, first_divergence, plant}; a difference
// that is no number is null.
std::string to_json(const Certificate& certificate);

}  // namespace llmtrain
