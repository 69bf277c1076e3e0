#pragma once

#include "llmtrain/data/prepare.hpp"

// tokens.json beside a pair: which texts, which tokenizer, which rules, what came out. It holds no time
// and no host, so the same input gives the same bytes.
namespace llmtrain {

Status write_provenance(FileSystem& files,
                        const PrepareOptions& options,
                        const TextCounts& texts,
                        const TokenFileSummary& summary);

}  // namespace llmtrain
