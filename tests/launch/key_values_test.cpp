#include "llmtrain/launch/key_values.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;

namespace {

constexpr Instant kNow{1000};

StoreRequest set(std::uint32_t id, const std::string& key, const std::string& value) {
  return {.op = StoreRequest::Op::kSet, .id = id, .key = key, .value = value};
}
StoreRequest get(std::uint32_t id, const std::string& key, std::uint32_t timeout_ms) {
  return {.op = StoreRequest::Op::kGet, .id = id, .key = key, .value = {}, .timeout_ms = timeout_ms};
}

}  // namespace

TEST_CASE("key values: a get finds what was set, or waits for it", "[launch]") {
  KeyValues store;
  CHECK(store.ask(kNow, {1, 2}, get(7, "k", 500)).empty());
  CHECK(store.ask(kNow, {1, 3}, get(9, "other", 500)).empty());
  CHECK(store.deadline() == kNow + Milliseconds{500});
  const auto replies = store.ask(kNow, {0, 0}, set(1, "k", "v"));
  REQUIRE(replies.size() == 2);  // the setter, and who waited
  CHECK(replies[0].to.rank == 0);
  CHECK(replies[0].reply == StoreReply{1, ""});
  CHECK(replies[1].to.node == 1);
  CHECK(replies[1].to.rank == 2);
  CHECK(replies[1].reply == StoreReply{7, "v"});
  const auto now = store.ask(kNow, {0, 1}, get(8, "k", 0));
  REQUIRE(now.size() == 1);
  CHECK(now[0].reply == StoreReply{8, "v"});
  store.ask(kNow, {0, 0}, set(2, "k", "w"));
  CHECK(store.ask(kNow, {0, 1}, get(8, "k", 0))[0].reply.value == "w");
}

TEST_CASE("key values: a wait ends at its deadline, and with its incarnation", "[launch]") {
  KeyValues store;
  store.ask(kNow, {0, 1}, get(1, "k", 500));
  CHECK(store.tick(kNow + Milliseconds{499}).empty());
  const auto late = store.tick(kNow + Milliseconds{500});
  REQUIRE(late.size() == 1);
  CHECK(late[0].reply == StoreReply{1, std::nullopt});
  CHECK_FALSE(store.deadline().has_value());

  store.ask(kNow, {0, 1}, get(2, "k", 500));
  store.ask(kNow, {0, 1}, set(3, "old", "1"));
  store.clear();
  CHECK(store.ask(kNow, {0, 1}, set(4, "k", "v")).size() == 1);
  CHECK(store.ask(kNow, {0, 1}, get(5, "old", 0))[0].reply == StoreReply{5, std::nullopt});
}

TEST_CASE("key values: more than it may hold is refused, what is replaced counts once", "[launch]") {
  KeyValues store;
  const std::string value(StoreLimits::kValue, 'x');
  std::uint32_t stored = 0;
  while (store.ask(kNow, {0, 0}, set(stored, std::to_string(stored), value))[0].reply.value) ++stored;
  CHECK(stored > 1000);
  CHECK(stored * StoreLimits::kValue <= KeyValues::kMaxBytes);
  CHECK(store.ask(kNow, {0, 0}, set(1, "0", value))[0].reply.value == "");
}
