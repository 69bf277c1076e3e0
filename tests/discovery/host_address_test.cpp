#include "llmtrain/discovery/host_address.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("host address: the way there and whether it is here", "[discovery]") {
  CHECK(address_towards({"127.0.0.1", 29'400}).value() == "127.0.0.1");
  CHECK(address_towards({"localhost", 29'400}));
  CHECK(is_this_host({"127.0.0.1", 29'400}).value());
  CHECK_FALSE(is_this_host({"192.0.2.1", 29'400}).value());  // an address of examples: nobody's
  const auto unknown = address_towards({"no-such-host.invalid", 29'400});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().code == ErrorCode::kPreflight);
  CHECK(unknown.error().message.find("no-such-host.invalid") != std::string::npos);
  CHECK_FALSE(own_address().empty());
}
