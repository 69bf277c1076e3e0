#include <numeric>
#include <thread>

#include <fmt/format.h>

#include "llmtrain/shm/collectives.hpp"
#include "llmtrain/shm/message_queues.hpp"
#include "llmtrain/shm/point_to_point.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/spawn_ranks.hpp"

// Messages between two ranks: their order, and what they may wait for.

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

ShmGroupOptions world_of(const ShmRegion& region, int rank) {
  ShmGroupOptions options{.name = "world", .slot = 0, .members = {}, .global_ranks = {}, .rank = rank};
  options.members.resize(static_cast<std::size_t>(region.world_size()));
  std::iota(options.members.begin(), options.members.end(), 0);
  options.timeout = 60s;
  return options;
}

ShmGroup world(const std::shared_ptr<ShmRegion>& region, int rank) {
  return ShmGroup(region, world_of(*region, rank));
}

void ok(const Status& status) {
  if (!status) throw std::runtime_error(to_string(status.error()));
}

// A rank that sends and receives behind its back.
struct Endpoint {
  ShmGroup group;
  MessageQueues messages;
  std::vector<std::shared_ptr<ProgressEngine::Ticket>> tickets;

  Endpoint(const std::shared_ptr<ShmRegion>& region, int rank)
      : group(region, world_of(*region, rank)), messages(region->world_size()) {}

  void send(const std::vector<std::uint8_t>& data, int to) {
    tickets.push_back(
        messages.to(to).start([this, &data, to] { return shm_send(group, data.data(), data.size(), to); }));
  }
  void recv(std::vector<std::uint8_t>& data, int from) {
    tickets.push_back(messages.from(from).start(
        [this, &data, from] { return shm_recv(group, data.data(), data.size(), from); }));
  }
  void wait_all() {
    for (const auto& ticket : tickets) ok(ticket->wait());
  }
};

std::vector<std::uint8_t> message(std::size_t bytes, int from, int number) {
  return std::vector<std::uint8_t>(bytes, static_cast<std::uint8_t>(16 * from + number % 16 + 1));
}

}  // namespace

TEST_CASE("shm send and recv: messages of any size keep their order, in both directions at once", "[shm]") {
  const int ranks = GENERATE(2, 4);
  const std::vector<std::size_t> sizes = {0, 1, 4096, kLaneBytes, kLaneBytes + 1, 1'000'003};
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    ShmGroup group = world(region, rank);
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      std::vector<std::uint8_t> out(sizes[n], static_cast<std::uint8_t>(rank * 16 + static_cast<int>(n)));
      std::vector<std::uint8_t> in(sizes[n]);
      // Long messages pass while they are received, so that the ring must not send all at once.
      if (rank % 2 == 0) {
        ok(shm_send(group, out.data(), out.size(), next));
        ok(shm_recv(group, in.data(), in.size(), previous));
      } else {
        ok(shm_recv(group, in.data(), in.size(), previous));
        ok(shm_send(group, out.data(), out.size(), next));
      }
      const std::vector<std::uint8_t> want(sizes[n],
                                           static_cast<std::uint8_t>(previous * 16 + static_cast<int>(n)));
      require(in == want, "message");
      if (n % 2 == 0)
        ok(shm_barrier(group));  // collectives and messages of one group do not disturb each other
    }
  });
}

TEST_CASE("shm messages: a whole ring sends before it receives, whatever the sizes", "[shm]") {
  const int ranks = GENERATE(2, 3, 5, 32);  // two threads a rank beside its own
  const std::vector<std::size_t> sizes = {0, 1, kLaneBytes, 3 * kLaneBytes + 1, 1'000'003};
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    Endpoint self(region, rank);
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    std::vector<std::vector<std::uint8_t>> out, in;
    for (std::size_t n = 0; n < sizes.size(); ++n) {
      // Neighbours send different sizes too: what a rank receives may be longer than what it sends.
      const auto size_of = [&](int sender) {
        return sizes[(n + static_cast<std::size_t>(sender)) % sizes.size()];
      };
      out.push_back(message(size_of(rank), rank, static_cast<int>(n)));
      in.emplace_back(size_of(previous));
    }
    for (const auto& data : out) self.send(data, next);
    for (auto& data : in) self.recv(data, previous);
    self.wait_all();
    for (std::size_t n = 0; n < sizes.size(); ++n)
      require(in[n] == message(in[n].size(), previous, static_cast<int>(n)), "message");
  });
}

TEST_CASE("shm messages: both directions flow at once beside collectives of the same group", "[shm]") {
  const int ranks = GENERATE(2, 4);
  constexpr int kMessages = 40;
  spawn_ranks(ranks, [&](int rank, const auto& region) {
    Endpoint self(region, rank);
    const int next = (rank + 1) % ranks;
    const int previous = (rank + ranks - 1) % ranks;
    std::vector<std::vector<std::uint8_t>> out, from_previous, from_next;
    for (int n = 0; n < kMessages; ++n) {
      const std::size_t bytes = static_cast<std::size_t>(n) * 7919;
      out.push_back(message(bytes, rank, n));
      from_previous.emplace_back(bytes);
      from_next.emplace_back(bytes);
    }
    const bool both = next != previous;
    for (std::size_t n = 0; n < kMessages; ++n) {
      self.recv(from_previous[n], previous);
      if (both) self.recv(from_next[n], next);
    }
    for (int n = 0; n < kMessages; ++n) {
      self.send(out[static_cast<std::size_t>(n)], next);
      if (both) self.send(out[static_cast<std::size_t>(n)], previous);
      std::vector<std::int64_t> data(n % 10 == 0 ? 50'000 : 3, rank);
      ok(shm_all_reduce(self.group, data.data(), data.size(), ElementType::kInt64, ReduceOp::kSum));
      require(data.back() == ranks * (ranks - 1) / 2, "all_reduce");
    }
    self.wait_all();
    for (int n = 0; n < kMessages; ++n) {
      const auto index = static_cast<std::size_t>(n);
      const std::size_t bytes = from_previous[index].size();
      require(from_previous[index] == message(bytes, previous, n), "from the previous rank");
      if (both) require(from_next[index] == message(bytes, next, n), "from the next rank");
    }
  });
}

TEST_CASE("shm messages: one that waits for its peer holds up no other peer", "[shm]") {
  spawn_ranks(3, [](int rank, const auto& region) {
    Endpoint self(region, rank);
    std::vector<std::uint8_t> early(1), late(1), data = message(1, rank, 0);
    if (rank == 0) {
      self.recv(late, 2);  // rank 2 sends only after it heard from rank 1, which waits for this rank
      self.recv(early, 1);
      ok(self.tickets[1]->wait());
      self.send(data, 1);
    } else if (rank == 1) {
      self.send(data, 0);
      self.recv(early, 0);
      ok(self.tickets[1]->wait());
      self.send(data, 2);
    } else {
      self.recv(early, 1);
      ok(self.tickets[0]->wait());
      self.send(data, 0);
    }
    self.wait_all();
  });
}

TEST_CASE("shm messages: what fits the lane is sent without a receiver", "[shm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    ShmGroup group = world(region, rank);
    const std::vector<std::uint8_t> data = message(2 * kLaneBytes, rank, 0);
    if (rank == 0) {
      require(shm_send_is_buffered(group, 2 * kLaneBytes, 1), "an empty lane");
      require(!shm_send_is_buffered(group, 2 * kLaneBytes + 1, 1), "three pieces");
      ok(shm_send(group, data.data(), 1, 1));
      require(shm_send_is_buffered(group, kLaneBytes, 1), "half a lane");
      require(!shm_send_is_buffered(group, kLaneBytes + 1, 1), "two pieces");
      ok(shm_send(group, data.data(), 0, 1));
      require(!shm_send_is_buffered(group, 0, 1), "an empty message is a piece too");
    }
    ok(shm_barrier(group));
  });
}

TEST_CASE("shm messages: a failure of one ends all calls of the group with the same error", "[shm]") {
  spawn_ranks(3, [](int rank, const auto& region) {
    std::vector<std::uint8_t> data(100);
    if (rank != 0) {
      ShmGroup group = world(region, rank);
      if (rank == 1) ok(shm_send(group, data.data(), 100, 0));
      while (region->aborted_by() < 0) std::this_thread::sleep_for(1ms);
      return;
    }
    Endpoint self(region, rank);
    std::vector<std::uint8_t> never(1), wrong(99);
    self.recv(never, 2);
    Status barrier = ok_status();  // nobody else comes
    std::thread collective([&] { barrier = shm_barrier(self.group); });
    self.recv(wrong, 1);
    const Status failure = self.tickets[1]->wait();
    const Status other = self.tickets[0]->wait();
    collective.join();
    const Status later = shm_barrier(self.group);
    region->abort(0);
    require(!failure && !other && !barrier && !later, "all fail");
    const std::string want = "recv #1 from rank 1 of group world expected 99 bytes and got 100";
    for (const Status& status : {failure, other, barrier, later})
      require(status.error().message == want, want);
    require(self.group.missing_ranks().empty(), "nobody is missing");
  });
}

TEST_CASE("shm messages: a cancelled group ends what is in flight in every direction", "[shm]") {
  spawn_ranks(2, [](int rank, const auto& region) {
    if (rank == 1) {
      while (region->aborted_by() < 0) std::this_thread::sleep_for(1ms);
      return;
    }
    Endpoint self(region, rank);
    std::vector<std::uint8_t> in(1), out(1'000'000);
    self.recv(in, 1);
    self.send(out, 1);
    require(self.messages.busy(), "in flight");
    self.group.cancel();
    for (const auto& ticket : self.tickets) {
      const Status status = ticket->wait();
      require(!status && status.error().message.find("cancelled by its own rank") != std::string::npos,
              "cancelled");
    }
    region->abort(0);
  });
}
