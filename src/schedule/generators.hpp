#pragma once

#include <vector>

#include "llmtrain/schedule/action.hpp"

// The generators, one file each: the program of one stage as a function of four numbers that generate() has
// found fitting.
namespace llmtrain {

struct Pipeline {
  int num_stages = 1;
  int num_chunks = 1;  // virtual stages of each stage
  int num_micro_batches = 1;
};

std::vector<Action> gpipe_program(const Pipeline& pipeline, int stage);
std::vector<Action> one_f_one_b_program(const Pipeline& pipeline, int stage);
std::vector<Action> interleaved_program(const Pipeline& pipeline, int stage);
std::vector<Action> zb_h1_program(const Pipeline& pipeline, int stage);
std::vector<Action> zbv_program(const Pipeline& pipeline, int stage);

}  // namespace llmtrain
