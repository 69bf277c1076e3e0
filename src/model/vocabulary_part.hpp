#pragma once

#include <string>

#include "llmtrain/parallel/flat_parameters.hpp"

// Which rows of the vocabulary's matrices are this rank's.
namespace llmtrain {

inline constexpr std::int64_t kElsewhere = -1;

struct VocabularyPart {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t total = 0;

  bool is_whole() const { return count == total; }
  // This rank's row of a token; kElsewhere for tokens of other ranks, and for labels that do not count.
  std::int64_t own_row(std::int64_t token) const {
    return token >= first && token < first + count ? token - first : kElsewhere;
  }
};

inline VocabularyPart vocabulary_part(const FlatParameters& params, const std::string& matrix) {
  const ParamSlice& slice = params.slice(matrix);
  return {.first = slice.shard.offset[0], .count = slice.shard.extent[0], .total = slice.spec->shape[0]};
}

}  // namespace llmtrain
