#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/checkpoint/scan.hpp"
#include "llmtrain/checkpoint/writer.hpp"
#include "llmtrain/comm/mesh_comms.hpp"
#include "llmtrain/optim/optimizer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/train/named_tensors.hpp"
#include "llmtrain/train/progress.hpp"
#include "llmtrain/train/rank_context.hpp"

// A rank's side of checkpoints: its tensors as named pieces, out and in.
//
// A rank owns parts; of tensor-parallel ranks with the same part the first writes it, and data-parallel
// ranks that own the same split the writing by bytes. The first rank gathers every rank's file records,
// writes the manifest and renames: until that rename the checkpoint does not exist. What lies where on disk
// is the business of the checkpoint module.
namespace llmtrain {

class Checkpointer {
 public:
  // `table`: of the whole model, of which `parameters` may hold a part. `extra_files` travel with every
  // checkpoint.
  Checkpointer(RankContext& context,
               const std::vector<ParamSpec>& table,
               FlatParameters& parameters,
               Optimizer& optimizer,
               MeshComms& comms,
               std::vector<ExtraFile> extra_files);

  // Collective. Commits the state after `progress.step`, then lets go of old checkpoints. The step that
  // was saved or restored last is not written again. Every rank returns the same status.
  Status save(const Progress& progress);
  // Loads every tensor and counter from a step directory. Throws ErrorException.
  Progress restore(const std::string& step_dir);

 private:
  std::vector<ShardFile> shards_of_this_rank() const;
  TrainState state_after(const Progress& progress) const;
  Status check_epoch(FileSystem& files) const;
  Result<Committed> commit_shards(FileSystem& files,
                                  const SaveTarget& target,
                                  const Progress& progress,
                                  const std::vector<std::string>& reports);
  void let_go_of_old_ones();
  void warn_of_other_machine(const TrainState& state);

  RankContext& context_;
  FlatParameters& parameters_;
  Optimizer& optimizer_;
  Communicator& world_;
  Communicator& replicas_;  // data-parallel: the ranks that own the same boxes
  std::vector<ExtraFile> extra_files_;
  std::vector<TensorInfo> expected_;  // of the whole model
  std::vector<NamedTensor> tensors_;  // of this rank
  std::string checkpoints_dir_;
  std::int64_t saved_step_ = -1;  // saved or restored last
  std::int64_t resumed_from_ = -1;
  std::string previous_;  // directory name of the checkpoint before
  KnownManifests known_;  // of the checkpoints directory
};

}  // namespace llmtrain
