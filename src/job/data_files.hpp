#pragma once

#include "llmtrain/job/load_job.hpp"

#include "rules.hpp"

namespace llmtrain {

// Looks whether the token files and the tokenizer exist; what is in them is for `data` to judge.
void check_data_files(Rules& rules, MissingData policy);

}  // namespace llmtrain
