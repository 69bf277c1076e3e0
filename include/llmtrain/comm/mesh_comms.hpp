#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llmtrain/comm/call_faults.hpp"
#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/trace.hpp"
#include "llmtrain/topology/mesh.hpp"

// All communicators of one rank: world, one per axis of the mesh, the gradient group and the parts of it that
// share one copy of sharded state, the ranks of a tensor-parallel group that hold the same values, and what a
// pipeline has beside its axis.
//
// They are created in one fixed order on all ranks; groups of one are solo. shutdown() ends them in
// reverse order, also while a peer is missing; the destructor calls it if nobody did. Used by one thread.
namespace llmtrain {

struct BlackBox;
class GroupFactory;
class ShmRegion;
class Store;

struct MeshCommsOptions {
  MeshShape shape;
  int global_rank = 0;
  int tensor_replicas = 1;        // neighbours in a tp group that share a key/value head; divides tp
  int shard_size = 0;             // neighbours in the gradient group that share state; divides it; 0 = all
  std::vector<int> host_of_rank;  // for every rank of the world; empty: all are on one host
  std::shared_ptr<ShmRegion> region;  // of the ranks of this host; may be null for one rank
  std::shared_ptr<Store> store;       // where ranks of several hosts meet, and those of GPUs
  std::string address;                // under which other hosts reach this one; empty: what its name means
  bool cuda = false;                  // the tensors are on this process's GPU
  std::chrono::nanoseconds timeout = std::chrono::minutes(10);  // of one wait
  bool tied_embedding = false;   // first and last pipeline stage hold the same weight
  bool check_calls = false;      // compare operation and shape of every collective over the group
  std::function<void()> jitter;  // called before waits, by any thread, to disturb the timing; may be null
  std::shared_ptr<CallFaults> call_faults;  // makes this rank err when it is armed; null: it never does
  bool trace = true;
  BlackBox* black_box = nullptr;  // newest collectives go there; may be null
};

class MeshComms {
 public:
  explicit MeshComms(const MeshCommsOptions& options);
  ~MeshComms();
  MeshComms(const MeshComms&) = delete;
  MeshComms& operator=(const MeshComms&) = delete;

  Communicator& world() { return *world_; }
  Communicator& axis(Axis axis) { return *axes_[static_cast<std::size_t>(axis)]; }
  // dp x sp: gradients are summed over it. It is the dp group itself when sp is 1, and the sp group when dp
  // is 1.
  Communicator& gradient() { return *gradient_; }
  // The part of the gradient group that shares one copy of what is sharded; the group itself when that is
  // all.
  Communicator& shards() { return *shards_; }
  // The ranks of the gradient group with the same part of such a copy; alone when there is one copy.
  Communicator& shard_replicas() { return *shard_replicas_; }
  // The part of the tp group that holds the same key/value head; alone when there are heads for all.
  Communicator& tensor_replicas() { return *tensor_replicas_; }
  // The pp group once more: gradients travel towards the input in an order of their own, beside the
  // activations of axis(kPipeline).
  Communicator& pipeline_gradients() { return *pipeline_gradients_; }
  // First and last stage of a pipeline with a tied embedding, for ranks of these; else alone.
  Communicator& embedding() { return *embedding_; }

  // What was communicated so far; empty without tracing.
  std::vector<CommTrace::Total> totals() const { return trace_->totals(); }
  double exposed_ms() const { return trace_->exposed_ms(); }

  // Idempotent. A call still in flight is cancelled. Peers that still wait for this rank are told that it
  // left.
  void shutdown();

 private:
  MeshCommsOptions options_;
  std::shared_ptr<CommTrace> trace_;
  std::unique_ptr<GroupFactory> groups_;
  std::unique_ptr<Communicator> world_;
  std::array<std::unique_ptr<Communicator>, kAxes.size()> axes_;
  std::unique_ptr<Communicator> own_gradient_;  // only when dp and sp both cut
  Communicator* gradient_ = nullptr;
  std::unique_ptr<Communicator> own_shards_;  // only when there are several copies
  Communicator* shards_ = nullptr;
  std::unique_ptr<Communicator> shard_replicas_;
  std::unique_ptr<Communicator> tensor_replicas_;
  std::unique_ptr<Communicator> pipeline_gradients_;
  std::unique_ptr<Communicator> embedding_;
};

}  // namespace llmtrain
