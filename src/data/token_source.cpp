#include "llmtrain/data/token_source.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/core/check.hpp"
#include "llmtrain/data/indexed_dataset.hpp"
#include "llmtrain/data/synthetic_source.hpp"

namespace llmtrain {

std::int64_t document_at(const TokenSource& source, std::int64_t offset) {
  LLMTRAIN_CHECK(0 <= offset && offset < source.num_tokens(), "token {} of {}", offset, source.num_tokens());
  // The last document that begins at or before `offset`; empty documents before it begin there too.
  std::int64_t low = 0;
  std::int64_t high = source.num_documents();
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (source.document_begin(middle) <= offset ? low : high) = middle;
  }
  return low;
}

std::vector<std::int64_t> document_begins(const TokenSource& source,
                                          std::int64_t offset,
                                          std::int64_t count) {
  std::vector<std::int64_t> begins = {0};
  for (std::int64_t next = document_at(source, offset) + 1; next < source.num_documents(); ++next) {
    const std::int64_t begin = source.document_begin(next) - offset;
    if (begin >= count) break;
    if (begin > begins.back()) begins.push_back(begin);  // an empty document begins nowhere
  }
  return begins;
}

std::int64_t split_point(const TokenSource& source, double fraction) {
  LLMTRAIN_CHECK(fraction > 0 && fraction < 1, "fraction {}", fraction);
  const std::int64_t total = source.num_tokens();
  if (total == 0) return 0;
  const auto wanted = static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(total)));
  const std::int64_t cut = std::clamp<std::int64_t>(total - wanted, 0, total);
  if (cut == total || cut == 0) return cut;
  const std::int64_t document = document_at(source, cut);
  const std::int64_t before = source.document_begin(document);
  const std::int64_t after = source.document_begin(document + 1);
  const std::int64_t nearest = cut - before <= after - cut ? before : after;
  const std::int64_t held = total - nearest;
  const bool close = held * 2 >= wanted && held <= wanted * 2;
  return close ? nearest : cut;
}

Result<std::shared_ptr<const TokenSource>> open_token_source(const std::string& path,
                                                             const SyntheticOptions& synthetic) {
  if (path == "synthetic") {
    LLMTRAIN_ASSIGN(source, SyntheticSource::make(synthetic));
    return std::shared_ptr<const TokenSource>(std::make_shared<SyntheticSource>(std::move(source)));
  }
  LLMTRAIN_ASSIGN(dataset, IndexedDataset::open(path));
  return std::shared_ptr<const TokenSource>(std::make_shared<IndexedDataset>(std::move(dataset)));
}

}  // namespace llmtrain
