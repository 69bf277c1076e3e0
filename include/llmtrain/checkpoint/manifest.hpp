#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/checkpoint/file_record.hpp"
#include "llmtrain/core/result.hpp"
#include "llmtrain/topology/mesh.hpp"

// manifest.json: the one file that makes a directory a checkpoint, written last.
//
// It holds everything about the run that is no tensor, and size and checksums of every other file. Its
// own last line is the checksum of the text before it, so that no byte of a checkpoint is uncovered.
namespace llmtrain {

inline constexpr int kCheckpointFormatVersion = 1;
inline constexpr char kManifestName[] = "manifest.json";

// Where training stood. Every field but those under "where it was saved" belongs to what a run computes.
struct TrainState {
  std::int64_t step = 0;         // finished optimizer steps
  std::int64_t next_sample = 0;  // global sample cursor: index of the first sample not yet seen
  std::int64_t tokens = 0;       // seen since step 0
  std::uint64_t seed = 0;
  std::int64_t optimizer_steps = 0;  // Adam's own count: steps that were not skipped
  std::int64_t skipped_steps = 0;
  std::map<std::string, std::string> extra;  // small state of parts without tensors, e.g. a loss scale
  std::string spec_yaml;                     // resolved spec

  // Where it was saved, and by whom.
  std::int64_t epoch = 0;               // incarnation that saved it
  std::int64_t resumed_from_step = -1;  // step of the checkpoint this incarnation started from; -1: none
  std::string previous;                 // directory name of the checkpoint before; empty: none
  MeshShape layout;
  std::string cpu;          // instruction set libtorch computed with
  int compute_threads = 0;  // per rank
  std::string llmtrain_version;
  std::int64_t saved_at = 0;  // Unix seconds
};

struct Manifest {
  TrainState state;
  std::vector<FileRecord> files;  // ascending names, manifest.json itself left out

  std::uint64_t total_bytes() const;
  // Every tensor once, ascending names; an error when pieces overlap, leave holes or contradict each other.
  Result<std::vector<TensorInfo>> tensors() const;
};

std::string encode_manifest(const Manifest& manifest);
// `origin` names the file in errors. Checks its checksum before anything else.
Result<Manifest> decode_manifest(std::string_view text, const std::string& origin);

// Why the text fails its own checksum: the offset of the damage when one byte explains it. Empty: it is
// intact.
struct ManifestDamage {
  bool damaged = false;
  std::uint64_t begin = 0;  // byte range that holds the damage
  std::uint64_t end = 0;
  std::string what;
};
ManifestDamage check_manifest_bytes(std::string_view text);

}  // namespace llmtrain
