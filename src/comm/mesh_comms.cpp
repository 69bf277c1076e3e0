#include "llmtrain/comm/mesh_comms.hpp"

#include <algorithm>
#include <string>

#include "llmtrain/core/check.hpp"
#include "llmtrain/shm/progress_engine.hpp"
#include "llmtrain/shm/region.hpp"

#include "group_factory.hpp"

namespace llmtrain {
namespace {

// Slots of the region; the axes take theirs in the order of kAxes.
constexpr int kWorldSlot = 0;
constexpr int kFirstAxisSlot = 1;
constexpr int kGradientSlot = kFirstAxisSlot + static_cast<int>(kAxes.size());
constexpr int kReplicaSlot = kGradientSlot + 1;
constexpr int kShardSlot = kReplicaSlot + 1;
constexpr int kShardReplicaSlot = kShardSlot + 1;
constexpr int kPipelineGradientSlot = kShardReplicaSlot + 1;
constexpr int kEmbeddingSlot = kPipelineGradientSlot + 1;
static_assert(kEmbeddingSlot < kGroupSlots);

std::vector<int> world_of(const MeshShape& shape) {
  std::vector<int> ranks(static_cast<std::size_t>(shape.world_size()));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<int>(rank);
  return ranks;
}

// tp is the fastest axis: neighbours in the group are neighbours in the world.
std::vector<int> replicas_of(const MeshShape& shape, int rank, int replicas) {
  LLMTRAIN_CHECK(shape.tp % replicas == 0, "{} replicas in a tp group of {}", replicas, shape.tp);
  std::vector<int> ranks(static_cast<std::size_t>(replicas));
  const int first = rank / replicas * replicas;
  for (int i = 0; i < replicas; ++i) ranks[static_cast<std::size_t>(i)] = first + i;
  return ranks;
}

// The member's neighbours among `size` that follow each other, and those at the same place among theirs.
struct ShardGroups {
  std::vector<int> shards;
  std::vector<int> replicas;
};

ShardGroups shard_groups(const std::vector<int>& members, int rank, int size) {
  const auto count = static_cast<int>(members.size());
  LLMTRAIN_CHECK(size > 0 && count % size == 0, "copies of {} ranks in a group of {}", size, count);
  const auto at = static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  ShardGroups groups;
  for (int i = 0; i < count; ++i) {
    if (i / size == at / size) groups.shards.push_back(members[static_cast<std::size_t>(i)]);
    if (i % size == at % size) groups.replicas.push_back(members[static_cast<std::size_t>(i)]);
  }
  return groups;
}

// First and last stage of the rank's pipeline when the rank is one of them, else the rank alone.
std::vector<int> embedding_holders(const std::vector<int>& stages, int rank) {
  if (rank != stages.front() && rank != stages.back()) return {rank};
  return {stages.front(), stages.back()};
}

// Computation waits for what goes over tp, layer by layer: it must not stand behind a reduction of gradients,
// which has until the end of the step.
std::shared_ptr<ProgressEngine> layers_engine() {
  return std::make_shared<ProgressEngine>();
}

}  // namespace

MeshComms::MeshComms(const MeshCommsOptions& options)
    : options_(options),
      trace_(std::make_shared<CommTrace>(options.black_box)),
      groups_(std::make_unique<GroupFactory>(options, trace_)) {
  const MeshShape& shape = options_.shape;
  const int rank = options_.global_rank;
  LLMTRAIN_CHECK(rank >= 0 && rank < shape.world_size(), "rank {} of {}", rank, shape.world_size());
  if (options_.region != nullptr) {
    LLMTRAIN_CHECK(options_.region->world_size() == groups_->local_ranks(),
                   "shared memory of {} ranks for {}",
                   options_.region->world_size(),
                   groups_->local_ranks());
    options_.region->attach(groups_->local_rank(rank));
  }
  world_ = groups_->make({.name = "world", .slot = kWorldSlot, .members = world_of(shape)});
  for (const Axis axis : kAxes) {
    const auto index = static_cast<std::size_t>(axis);
    axes_[index] = groups_->make({.name = to_string(axis).data(),
                                  .slot = kFirstAxisSlot + static_cast<int>(axis),
                                  .members = group_of(shape, axis, rank),
                                  .messages = axis == Axis::kPipeline,
                                  .engine = axis == Axis::kTensor ? layers_engine() : nullptr});
  }
  if (shape.dp > 1 && shape.sp > 1)
    own_gradient_ =
        groups_->make({.name = "dp_sp", .slot = kGradientSlot, .members = gradient_group_of(shape, rank)});
  gradient_ =
      own_gradient_ != nullptr ? own_gradient_.get() : &axis(shape.sp > 1 ? Axis::kSequence : Axis::kData);
  const std::vector<int> members = gradient_group_of(shape, rank);
  const int shard_size = options_.shard_size == 0 ? static_cast<int>(members.size()) : options_.shard_size;
  const ShardGroups groups = shard_groups(members, rank, shard_size);
  if (groups.replicas.size() > 1)
    own_shards_ = groups_->make({.name = "dp_shard", .slot = kShardSlot, .members = groups.shards});
  shards_ = own_shards_ != nullptr ? own_shards_.get() : gradient_;
  shard_replicas_ =
      groups_->make({.name = "dp_replicas", .slot = kShardReplicaSlot, .members = groups.replicas});
  tensor_replicas_ = groups_->make({.name = "tp_replicas",
                                    .slot = kReplicaSlot,
                                    .members = replicas_of(shape, rank, options_.tensor_replicas)});
  const std::vector<int> stages = group_of(shape, Axis::kPipeline, rank);
  pipeline_gradients_ =
      groups_->make({.name = "pp_grad", .slot = kPipelineGradientSlot, .members = stages, .messages = true});
  const bool shares_embedding = options_.tied_embedding && stages.size() > 1;
  embedding_ =
      groups_->make({.name = "embedding",
                     .slot = kEmbeddingSlot,
                     .members = shares_embedding ? embedding_holders(stages, rank) : std::vector{rank}});
}

MeshComms::~MeshComms() {
  shutdown();
}

void MeshComms::shutdown() {
  if (world_ == nullptr) return;
  embedding_.reset();
  pipeline_gradients_.reset();
  tensor_replicas_.reset();
  shard_replicas_.reset();
  shards_ = gradient_ = nullptr;
  own_shards_.reset();
  own_gradient_.reset();
  for (auto it = axes_.rbegin(); it != axes_.rend(); ++it) it->reset();
  world_.reset();
  const int local_rank = groups_->local_rank(options_.global_rank);
  groups_.reset();  // and the thread of the collectives
  if (options_.region != nullptr) options_.region->leave(local_rank);
}

}  // namespace llmtrain
