#pragma once

#include <vector>

#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/data/corpus.hpp"
#include "llmtrain/spec/job_spec.hpp"

// The data section of a spec in the terms of the data module.
namespace llmtrain {

CorpusConfig corpus_config(const JobSpec& spec);

// The files that travel with every checkpoint so that it can be sampled from by itself: tokenizer.json,
// when the job names one. Read once, at the start.
Result<std::vector<ExtraFile>> tokenizer_copy(const JobSpec& spec);

}  // namespace llmtrain
