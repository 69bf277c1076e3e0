#include <algorithm>

#include "llmtrain/core/division.hpp"

#include "generators.hpp"
#include "program_writer.hpp"

// Interleaved 1F1B: each stage holds several chunks, far apart in the model, so that a micro-batch passes
// every stage several times and the pipeline fills and drains in steps of one chunk.
//
// Micro-batches go through in groups. A group runs through a stage's first chunk, then through its second,
// and so on; backward walks the chunks the other way. A group of at least pp micro-batches keeps every stage
// busy until its first one comes round again. So the micro-batches are dealt into as many groups of at least
// pp as there can be, the larger ones first: any number of them works, and where pp divides it, all groups
// are pp.
namespace llmtrain {
namespace {

std::vector<int> group_sizes(int num_micro_batches, int num_stages) {
  const auto num_groups =
      static_cast<int>(std::max<std::int64_t>(1, floor_div(num_micro_batches, num_stages)));
  const auto least = static_cast<int>(floor_div(num_micro_batches, num_groups));
  const int larger = num_micro_batches % num_groups;
  std::vector<int> sizes(static_cast<std::size_t>(num_groups), least);
  std::fill_n(sizes.begin(), larger, least + 1);
  return sizes;
}

}  // namespace

std::vector<Action> interleaved_program(const Pipeline& pipeline, int stage) {
  const std::vector<int> groups = group_sizes(pipeline.num_micro_batches, pipeline.num_stages);
  std::vector<int> chunks;  // of each forward in turn; backward number k is on the mirrored chunk
  for (const int size : groups)
    for (int chunk = 0; chunk < pipeline.num_chunks; ++chunk)
      chunks.insert(chunks.end(), static_cast<std::size_t>(size), chunk);

  // Before its first backward a stage sees the first group through all chunks but the last, and two more
  // forwards for every stage behind it: one on the way there, one while the gradient comes back.
  const std::size_t warmup = std::min(chunks.size(),
                                      static_cast<std::size_t>((pipeline.num_chunks - 1) * groups.front() +
                                                               2 * (pipeline.num_stages - 1 - stage)));
  ProgramWriter writer(pipeline.num_micro_batches);
  for (std::size_t k = 0; k < chunks.size() + warmup; ++k) {
    if (k < chunks.size()) writer.add({ActionKind::kForward, chunks[k]});
    if (k >= warmup) writer.add({ActionKind::kBackward, pipeline.num_chunks - 1 - chunks[k - warmup]});
  }
  return writer.take();
}

}  // namespace llmtrain
