#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "llmtrain/shm/collectives.hpp"
#include "llmtrain/shm/point_to_point.hpp"
#include "llmtrain/shm/progress_engine.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

// Global ranks are 10 x the local ones, so that a message with the wrong kind is seen.
ShmGroup group_of(const std::shared_ptr<ShmRegion>& region, int rank, std::chrono::milliseconds timeout) {
  ShmGroupOptions options;
  options.name = "dp";
  options.rank = rank;
  options.timeout = timeout;
  for (int member = 0; member < region->world_size(); ++member) {
    options.members.push_back(member);
    options.global_ranks.push_back(10 * member);
  }
  return ShmGroup(region, options);
}

void require_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    require(message.find(word) != std::string::npos, fmt::format("no \"{}\" in: {}", word, message));
}

}  // namespace

TEST_CASE("shm failures: a rank that never arrives is named when the deadline ends", "[shm]") {
  spawn_ranks(3, [](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 300ms);
    float x = 1;
    require(shm_all_reduce(group, &x, 1, ElementType::kFp32, ReduceOp::kSum).ok(), "the first call");
    if (rank == 2) {
      std::this_thread::sleep_for(900ms);
      return;
    }
    const Status status = shm_all_reduce(group, &x, 1, ElementType::kFp32, ReduceOp::kSum);
    require(!status && status.error().code == ErrorCode::kTimeout, "a timeout");
    require(group.missing_ranks() == std::vector<int>{20}, "missing ranks");
    require_words(status.error().message, {"all_reduce #2 of group dp", "timed out after 0.3 s", "rank 20"});

    // The group is broken from here on, and says the same at once.
    const auto began = std::chrono::steady_clock::now();
    const Status again = shm_barrier(group);
    require(!again && again.error().message == status.error().message, "the same error");
    require(std::chrono::steady_clock::now() - began < 250ms, "no second wait");
  });
}

TEST_CASE("shm failures: a rank that left is named long before the deadline", "[shm]") {
  spawn_ranks(3, [](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 60s);
    require(shm_barrier(group).ok(), "the first call");
    if (rank == 1) {
      region->leave(1);
      return;
    }
    const Status status = shm_barrier(group);
    require(!status && status.error().code == ErrorCode::kPeerLost, "a lost peer");
    require(group.missing_ranks() == std::vector<int>{10}, "missing ranks");
    require_words(status.error().message, {"barrier #2 of group dp", "lost a peer", "rank 10"});
  });
}

TEST_CASE("shm failures: a rank that left after it arrived is not missed", "[shm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 5s);
    for (int call = 0; call < 3; ++call) require(shm_barrier(group).ok(), "call");
    region->leave(rank);
  });
}

TEST_CASE("shm failures: an abort by the agent ends the waits of all ranks", "[shm]") {
  spawn_ranks(4, [](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 60s);
    if (rank == 3) {
      std::this_thread::sleep_for(100ms);
      region->abort(3);
      region->abort(1);  // the first cause stays
      return;
    }
    const Status status = shm_barrier(group);
    require(!status && status.error().code == ErrorCode::kPeerLost, "aborted");
    require_words(status.error().message, {"aborted by the agent", "local rank 3 was lost", "rank 30"});
  });
}

TEST_CASE("shm failures: ranks that call different things get an error that names both calls", "[shm]") {
  const int kind = GENERATE(0, 1, 2, 3, 4);
  spawn_ranks(3, [&](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 5s);
    std::vector<float> data(300'000, 1.0F);
    const bool odd = rank == 1;
    const Status status = [&]() -> Status {
      switch (kind) {
        case 0:
          return odd ? shm_barrier(group)
                     : shm_all_reduce(group, data.data(), 4, ElementType::kFp32, ReduceOp::kSum);
        case 1:
          return shm_all_reduce(group, data.data(), odd ? 300'000 : 4, ElementType::kFp32, ReduceOp::kSum);
        case 2:
          return shm_all_reduce(
              group, data.data(), 4, ElementType::kFp32, odd ? ReduceOp::kMax : ReduceOp::kSum);
        case 3:
          return shm_all_reduce(
              group, data.data(), odd ? 2 : 4, odd ? ElementType::kFp64 : ElementType::kFp32, ReduceOp::kSum);
        default: return shm_broadcast(group, data.data(), 16, odd ? 1 : 0);
      }
    }();
    require(!status && status.error().code == ErrorCode::kInternal, "a disagreement");
    require_words(status.error().message, {"ranks disagree", "rank 10 called"});
    require(group.missing_ranks().empty(), "nobody is missing");
  });
}

TEST_CASE("shm failures: messages have deadlines and sizes too", "[shm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    ShmGroup group = group_of(region, rank, 300ms);
    std::vector<std::uint8_t> data(1'000'000);
    if (rank == 0) {
      require(shm_send(group, data.data(), 100, 1).ok(), "a short message is buffered");
      const Status status = shm_send(group, data.data(), data.size(), 1);
      require(!status && group.missing_ranks() == std::vector<int>{10}, "nobody receives the long one");
      require_words(status.error().message,
                    {"send #2 to rank 10 of group dp timed out after 0.3 s; did not arrive: rank 10"});
    } else {
      const Status status = shm_recv(group, data.data(), 99, 0);
      require(!status, "a size that differs");
      require_words(status.error().message,
                    {"recv #1 from rank 0 of group dp expected 99 bytes and got 100"});
      std::this_thread::sleep_for(500ms);
    }
  });
}

TEST_CASE("shm progress: calls run in order behind the caller and report their own errors", "[shm]") {
  ProgressEngine engine;
  std::vector<int> order;
  std::vector<std::shared_ptr<ProgressEngine::Ticket>> tickets;
  for (int call = 0; call < 100; ++call) {
    tickets.push_back(engine.submit([&order, call]() -> Status {
      order.push_back(call);
      if (call == 50) return Error{ErrorCode::kPeerLost, "fifty", ""};
      return ok_status();
    }));
  }
  for (int call = 99; call >= 0; --call) {
    const Status status = tickets[static_cast<std::size_t>(call)]->wait();
    CHECK(status.ok() == (call != 50));
  }
  std::vector<int> want(100);
  std::iota(want.begin(), want.end(), 0);
  CHECK(order == want);
}

TEST_CASE("shm progress: the end drops what has not begun and its waiters learn of it", "[shm]") {
  std::shared_ptr<ProgressEngine::Ticket> running, waiting;
  {
    ProgressEngine engine;
    running = engine.submit([] {
      std::this_thread::sleep_for(50ms);
      return ok_status();
    });
    std::this_thread::sleep_for(10ms);
    waiting = engine.submit([] { return ok_status(); });
  }
  CHECK(running->wait().ok());
  CHECK(waiting->done());
}

TEST_CASE("shm progress: a cancelled group ends its running call", "[shm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    if (rank == 1) {
      std::this_thread::sleep_for(300ms);
      return;
    }
    ShmGroup group = group_of(region, rank, 60s);
    ProgressEngine engine;
    const auto ticket = engine.submit([&] { return shm_barrier(group); });
    std::this_thread::sleep_for(20ms);
    group.cancel();
    const Status status = ticket->wait();
    require(!status, "cancelled");
    require_words(status.error().message, {"cancelled by its own rank"});
  });
}
