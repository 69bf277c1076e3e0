#pragma once

#include <memory>

#include "llmtrain/comm/store.hpp"
#include "llmtrain/core/plant.hpp"
#include "llmtrain/job/run_plan.hpp"
#include "llmtrain/job/worker_request.hpp"
#include "llmtrain/monitor/black_box.hpp"
#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/train/control_channel.hpp"
#include "llmtrain/train/faults.hpp"

// What one rank was born with: its request, the job it belongs to, and its lines to the agent.
//
// No tensor and no communicator yet; everything that a rank builds is built from this (build.hpp).
namespace llmtrain {

struct BlackBoxUnmapper {
  void operator()(BlackBox* page) const;
};

struct RankContext {
  WorkerRequest request;
  JobSpec spec;
  RunPlan plan;
  std::unique_ptr<BlackBox, BlackBoxUnmapper> black_box;  // the agent's page
  ControlChannel events;
  FaultInjector faults;
  std::shared_ptr<Store> store;  // the job's, through the agent; null on one node
  Plant plant = Plant::kNone;    // set by proofs only

  bool is_first() const { return request.rank == 0; }
};

// Takes over the descriptors that the request names. Throws ErrorException.
RankContext make_rank_context(const std::string& request_json);

}  // namespace llmtrain
