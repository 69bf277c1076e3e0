#pragma once

#include <memory>

#include "llmtrain/train/rank_context.hpp"
#include "llmtrain/train/trainer.hpp"

// The composition root: the only place that turns a spec and a place in the world into live objects.
namespace llmtrain {

// One rank, built in dependency order and ready to train; owns every part of it. The constructor restores
// the checkpoint that the request names. Throws ErrorException, CommError and what libtorch throws.
class Rank {
 public:
  explicit Rank(RankContext& context);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  Trainer& trainer();
  const Pipeline& pipeline() const;
  const FlatParameters& parameters() const;
  const Optimizer& optimizer() const;
  // Reports the totals of this rank and shuts the communicators down in order.
  void close();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace llmtrain
