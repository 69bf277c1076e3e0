#include "llmtrain/train/proof_ranks.hpp"

#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/shm/region.hpp"
#include "llmtrain/spec/write.hpp"
#include "llmtrain/train/error.hpp"

namespace llmtrain {
namespace {

UniqueFd make_black_box() {
  UniqueFd page(::memfd_create("llmtrain-black-box", MFD_CLOEXEC));
  if (!page.valid() || ::ftruncate(page.get(), sizeof(BlackBox)) != 0)
    throw ErrorException(
        {ErrorCode::kInternal, fmt::format("cannot make a black box: {}", std::strerror(errno)), {}});
  return page;
}

void run_rank(WorkerRequest request, Plant plant, const RankBody& body) {
  const UniqueFd black_box = make_black_box();
  request.black_box_fd = black_box.get();
  RankContext context = make_rank_context(to_json(request));
  context.plant = plant;
  Rank rank(context);
  body(context, rank);
  rank.close();
}

}  // namespace

void run_proof_ranks(const JobSpec& spec, Plant plant, const RankBody& body) {
  const int world_size = plan_run(spec).world_size;
  const UniqueFd memory = value_or_throw(create_shm_region(world_size));
  const auto region = value_or_throw(ShmRegion::map(memory.get(), world_size));
  WorkerRequest request;
  request.world_size = world_size;
  request.spec_yaml = to_yaml(to_tree(spec));
  request.shm_fd = memory.get();

  std::mutex mutex;
  std::exception_ptr first_failure;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world_size; ++rank) {
      request.rank = request.local_rank = rank;
      threads.emplace_back([&, rank, request] {
        try {
          run_rank(request, plant, body);
        } catch (const std::exception&) {
          const std::lock_guard lock(mutex);
          if (first_failure == nullptr) first_failure = std::current_exception();
          region->abort(rank);
        }
      });
    }
  }
  if (first_failure != nullptr) std::rethrow_exception(first_failure);
}

}  // namespace llmtrain
