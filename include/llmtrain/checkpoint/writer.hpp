#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/core/filesystem.hpp"

// Saving a checkpoint: every rank writes its shards, then one commits them.
//
//   each rank:  records = write_shards(...)           into checkpoints/.step-<n>.e<epoch>.tmp/
//   gather records to rank 0 (encode_file_records)
//   rank 0:     commit(...)                           manifest last, then the rename that makes it a
//   checkpoint
//
// No barrier is needed before write_shards. Until the rename nothing but the temporary directory has
// changed, so a failure at any point leaves all older checkpoints as they were. The functions keep no
// state: an asynchronous save is the same calls from another thread, over bytes that stay unchanged.
namespace llmtrain {

struct SaveTarget {
  std::string checkpoints_dir;  // <run.dir>/checkpoints; made when missing
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // incarnation; fences off writers of older ones
  int rank = 0;
  int world_size = 1;
};

// One file of a rank: <kind>-<rank>-of-<world>.safetensors. Kinds in use: "weights", "optimizer".
struct ShardFile {
  std::string kind;
  std::vector<TensorPiece> pieces;  // in any order; a file without pieces is not written
};

// Writes, checksums and flushes this rank's files. Space is tested first: `bytes_of_all_ranks`, or what this
// rank writes when that is 0. On failure the rank's own files are removed again.
Result<std::vector<FileRecord>> write_shards(FileSystem& files,
                                             const SaveTarget& target,
                                             std::span<const ShardFile> shards,
                                             std::uint64_t bytes_of_all_ranks = 0);

// A small file that travels with the checkpoint, e.g. tokenizer.json.
struct ExtraFile {
  std::string name;  // bare
  std::string contents;
};

struct CommitRequest {
  TrainState state;                 // state.step and state.epoch are set from the target
  std::vector<FileRecord> records;  // of all ranks
  std::vector<ExtraFile> extra_files;
  std::vector<TensorInfo> expected;    // when not empty: the tensors must be exactly these
  std::function<Status()> may_commit;  // asked right before the rename (fencing); may be empty
  // Told where the commit stands, so that drills can end it there: "commit_manifest" and "commit_rename" are
  // right before these, "commit_renamed" is right after. May be empty.
  std::function<void(std::string_view arrow)> on_arrow;
};

struct Committed {
  std::string name;  // step-00000500
  std::string path;
  std::uint64_t bytes = 0;
};

Result<Committed> commit(FileSystem& files, const SaveTarget& target, CommitRequest request);

// Removes what ranks have written of a save that has failed, so that its space is free for the next one.
// Nobody may be writing it any more; a step that was committed all the same stays.
Status discard(FileSystem& files, const SaveTarget& target);

// At the start of incarnation `epoch`: removes unfinished saves of this and older epochs and unfinished
// deletions. Returns the names removed.
Result<std::vector<std::string>> remove_leftovers(FileSystem& files,
                                                  const std::string& checkpoints_dir,
                                                  std::int64_t epoch);

// Fails with kStorage when less than `bytes` are free where `directory` lies.
Status check_free_space(FileSystem& files, const std::string& directory, std::uint64_t bytes);

// Which of `num_writers` replicas writes each tensor: deterministic, balanced by bytes.
std::vector<int> assign_writers(std::span<const std::int64_t> tensor_bytes, int num_writers);

}  // namespace llmtrain
