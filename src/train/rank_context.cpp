#include "llmtrain/train/rank_context.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include <fmt/format.h>

#include "llmtrain/job/load_job.hpp"
#include "llmtrain/train/error.hpp"

namespace llmtrain {
namespace {

std::unique_ptr<BlackBox, BlackBoxUnmapper> map_black_box(int fd) {
  void* const page = ::mmap(nullptr, sizeof(BlackBox), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED)
    throw ErrorException(
        {ErrorCode::kInternal, fmt::format("cannot map the black box: {}", std::strerror(errno)), {}});
  return std::unique_ptr<BlackBox, BlackBoxUnmapper>(static_cast<BlackBox*>(page));
}

}  // namespace

void BlackBoxUnmapper::operator()(BlackBox* page) const {
  ::munmap(page, sizeof(BlackBox));
}

RankContext make_rank_context(const std::string& request_json) {
  WorkerRequest request = value_or_throw(worker_request_from_json(request_json));
  JobSpec spec = value_or_throw(parse_resolved(request.spec_yaml, "the worker request"));
  const RunPlan plan = plan_run(spec);
  auto black_box = map_black_box(request.black_box_fd);
  ControlChannel events(UniqueFd(request.control_fd), request.incarnation);
  FaultInjector faults(spec.faults, request.rank, request.incarnation);
  std::shared_ptr<Store> store;
  if (request.store_fd >= 0) store = make_agent_store(request.store_fd);
  if (plan.nodes > 1 && store == nullptr)
    throw ErrorException(
        {ErrorCode::kInternal,
         fmt::format("the job has {} nodes, and the agent gave no way to its store", plan.nodes),
         {}});
  return {std::move(request),
          std::move(spec),
          plan,
          std::move(black_box),
          std::move(events),
          std::move(faults),
          std::move(store)};
}

}  // namespace llmtrain
