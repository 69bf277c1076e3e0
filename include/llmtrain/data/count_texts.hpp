#pragma once

#include <cstdint>
#include <functional>

#include "llmtrain/data/bpe_trainer.hpp"
#include "llmtrain/data/text_input.hpp"

// The words of whole files, counted by several threads; the result does not depend on how many.
namespace llmtrain {

// An error when the input holds no text.
Status count_texts(TextInput& input,
                   const TextRules& rules,
                   int num_threads,
                   const std::function<void(std::int64_t bytes_done)>& progress,
                   WordCounts& words,
                   TextCounts& texts);

}  // namespace llmtrain
