#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "llmtrain/control/lease_store.hpp"
#include "llmtrain/control/lease_watch.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

TEST_CASE("an epoch is claimed once, and what is written is seen by others", "[control]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  LeaseStore a(directory.path(), *files), b(directory.path(), *files);
  CHECK_FALSE(a.look()->newest);
  const EpochClaim mine{1, 0, "n0", "10.0.0.1", 29400, "abc"};
  CHECK(*a.claim(mine));
  CHECK_FALSE(*b.claim({1, 1, "n1", "10.0.0.2", 29400, "def"}));
  CHECK(b.look()->newest == mine);
  CHECK_FALSE(b.look()->lease);

  REQUIRE(a.renew({1, 7, LeaseState::kHeld}));
  CHECK(b.look()->lease == LeaseRecord{1, 7, LeaseState::kHeld});
  const Legacy legacy{{{0, "n0"}, {1, "n1"}}, {{std::string("\0\xff\"", 3), "n2", "ate a step"}}};
  REQUIRE(a.publish(mine, legacy));
  CHECK(*b.legacy() == legacy);

  CHECK(*b.claim({2, 1, "n1", "10.0.0.2", 29400, "ghi"}));
  CHECK(a.look()->newest->epoch == 2);
  CHECK_FALSE(a.look()->lease);  // what the older leader wrote does not count
  REQUIRE(a.renew({1, 8, LeaseState::kHeld}));
  CHECK_FALSE(b.look()->lease);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
    CHECK_THAT(entry.path().filename().string(),
               !Contains("epoch-1.") && !Contains("epoch-2."));  // nothing left over

  std::ofstream(directory / "lease") << "{\"epoch\": \"x\"}";
  CHECK_THAT(b.look().error().message, Contains("lease"));
}

TEST_CASE("of many that claim an epoch at once, one gets it", "[control]") {
  const test::TemporaryDirectory directory;
  const auto files = make_posix_filesystem();
  for (std::int64_t epoch = 1; epoch <= 20; ++epoch) {
    std::atomic<int> won = 0;
    std::vector<std::thread> threads;
    for (int node = 0; node < 8; ++node)
      threads.emplace_back([&, node] {
        LeaseStore store(directory.path(), *files);
        if (*store.claim({epoch, node, "h", "a", 1, "n"})) ++won;
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(won == 1);
  }
}

namespace {

LeaseView view(std::int64_t epoch, std::int64_t counter, LeaseState state = LeaseState::kHeld) {
  return {EpochClaim{epoch, 0, "h", "a", 1, "n"}, LeaseRecord{epoch, counter, state}};
}

}  // namespace

TEST_CASE("a lease lives by its changes on the observer's clock", "[control]") {
  LeaseWatch watch(Milliseconds{3'000});
  const Instant t0{1'000'000};
  watch.saw(t0, {});
  CHECK(watch.unclaimed());
  CHECK(watch.outsider_claims_at(0) == t0);  // the founder need not wait

  LeaseWatch later(Milliseconds{3'000});
  later.saw(t0, view(4, 100));
  CHECK_FALSE(later.alive(t0));  // it may be years old
  CHECK(later.member_claims_at(2) == t0 + Milliseconds{3'600});
  CHECK(later.outsider_claims_at(2) > later.member_claims_at(2));
  later.saw(t0 + Milliseconds{500}, view(4, 101));
  CHECK(later.alive(t0 + Milliseconds{3'000}));
  CHECK_FALSE(later.alive(t0 + Milliseconds{3'500}));
  CHECK(later.member_claims_at(0) == t0 + Milliseconds{3'500});
  later.saw(t0 + Milliseconds{900}, view(4, 102, LeaseState::kYielded));
  CHECK(later.member_claims_at(1) == t0 + Milliseconds{1'200});  // yielded: at once, one after the other
  later.saw(t0 + Milliseconds{950}, view(4, 103, LeaseState::kEnded));
  CHECK(later.ended());
}
