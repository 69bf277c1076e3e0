#include <cstdlib>
#include <cstring>

#include "tests/control/simulated_group.hpp"
#include "tests/support/catch.hpp"

namespace {

// Sanitizers make each of them fifty times slower.
#ifdef LLMTRAIN_SANITIZED
constexpr std::uint64_t kSeeds = 150;
#else
constexpr std::uint64_t kSeeds = 1'500;
#endif

}  // namespace

// The rules that no schedule of failures may break: an epoch has one leader, a fenced leader stays so,
// numbers are not given twice, and once the failures stop all agents find together and end together.
TEST_CASE("seeded schedules of crash, stop, partition, delay and rejoin", "[control]") {
  const char* word = std::getenv("LLMTRAIN_TEST_LONG");
  const std::uint64_t seeds = word != nullptr && std::strcmp(word, "1") == 0 ? 100'000 : kSeeds;
  if (const char* one = std::getenv("LLMTRAIN_TEST_SEED")) {  // this one only, told step by step
    FAIL(llmtrain::simulation::World(std::strtoull(one, nullptr, 10), true).run());
  }
  int most_epochs = 0;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    llmtrain::simulation::World world(seed);
    const std::string problem = world.run();
    most_epochs = std::max(most_epochs, world.num_epochs());
    if (!problem.empty()) FAIL("seed " << seed << ": " << problem);
  }
  CHECK(most_epochs > 3);  // the schedules do make leaders fall
}
