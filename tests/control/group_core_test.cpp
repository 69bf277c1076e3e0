#include "llmtrain/control/group_core.hpp"

#include "tests/support/catch.hpp"

// The core of one agent alone: what it sees is made up, what it wants done is looked at.

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

constexpr Milliseconds kSecond{1'000};

class Joiner {
 public:
  Joiner() : core_(options(), now_) { see(1); }

  // The run directory names the leader of `epoch`.
  void see(std::int64_t epoch) {
    EpochClaim claim{epoch, 0, "host0", "127.0.0.1", 29400, "mark"};
    core_.lease_seen(now_, {claim, LeaseRecord{epoch, ++counter_, LeaseState::kHeld}});
  }
  // Dials, asks, and is told that it does not see the leader's directory.
  void is_refused() {
    core_.linked(now_, ++link_, true);
    RefuseMessage refusal{RefusalKind::kRetryBriefly, ErrorCode::kPreflight, "another directory"};
    core_.message(now_, link_, {1, refusal});
  }
  // What it has told people since the last call.
  std::string told_after(Milliseconds time) {
    now_ += time;
    core_.tick(now_, [](LinkId) { return true; });
    std::string text;
    for (const GroupCommand& command : core_.take())
      if (const auto* event = std::get_if<GroupEvent>(&command))
        if (const auto* missing = std::get_if<StillMissing>(event)) text += missing->text;
    return text;
  }
  bool over() const { return core_.over(); }

 private:
  static GroupCoreOptions options() {
    GroupCoreOptions options;
    options.self.host = "host1";
    options.self.node_rank = 1;
    options.min_nodes = options.world_nodes = 2;
    return options;
  }

  Instant now_{0};
  GroupCore core_;
  LinkId link_ = 0;
  std::int64_t counter_ = 0;
};

}  // namespace

TEST_CASE("one refusal may be older than what is there: people hear of it when it is repeated", "[control]") {
  Joiner joiner;
  joiner.is_refused();
  CHECK_THAT(joiner.told_after(4 * kSecond), !Contains("another directory"));
  joiner.is_refused();
  CHECK_THAT(joiner.told_after(6 * kSecond), Contains("another directory"));
}

TEST_CASE("refusals that go on end an agent, but not those of a leader before", "[control]") {
  Joiner joiner;
  joiner.is_refused();
  joiner.told_after(10 * kSecond);
  SECTION("the same leader") {
    joiner.is_refused();
    CHECK(joiner.over());
  }
  SECTION("its successor, which has just begun to lead") {
    joiner.see(2);
    joiner.is_refused();
    CHECK_FALSE(joiner.over());
  }
}
