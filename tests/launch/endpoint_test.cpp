#include "llmtrain/launch/endpoint.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

TEST_CASE("endpoint: names, addresses and IPv6 with and without a port", "[launch]") {
  const auto text = [](const char* written) {
    const auto endpoint = parse_endpoint(written, 29'400, "--rdzv-endpoint");
    return endpoint ? endpoint->text() : "refused: " + endpoint.error().message;
  };
  CHECK(text("n1") == "n1:29400");
  CHECK(text("n1:5") == "n1:5");
  CHECK(text("127.0.0.1") == "127.0.0.1:29400");
  CHECK(text("::1") == "[::1]:29400");
  CHECK(text("[::1]") == "[::1]:29400");
  CHECK(text("[::1]:80") == "[::1]:80");
  CHECK(text("fe80::1%eth0") == "[fe80::1%eth0]:29400");
  for (const char* wrong :
       {"", ":80", "n1:", "n1:0", "n1:65536", "n1:x", "n1:1 ", "[::1", "[::1]:", "[::1]80", "a b", "n1;x"}) {
    INFO(wrong);
    const auto endpoint = parse_endpoint(wrong, 29'400, "--rdzv-endpoint");
    REQUIRE_FALSE(endpoint);
    CHECK(endpoint.error().code == ErrorCode::kUsage);
    CHECK(endpoint.error().message.starts_with("--rdzv-endpoint = \""));
  }
}

TEST_CASE("endpoint: the way there and whether it is here", "[launch]") {
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
