#include "llmtrain/control/membership.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

NodeIdentity node_named(const std::string& host, std::optional<int> rank = {}) {
  NodeIdentity id;
  id.host = host;
  id.node_rank = rank;
  id.rdzv_id = "job";
  id.build = "b1";
  id.job_digest = "j1";
  id.data_digest = "d1";
  return id;
}

Membership table(int world, bool spares = false) {
  MembershipOptions options;
  options.self = node_named("n0", 0);
  options.world_nodes = options.min_nodes = world;
  options.spares = spares;
  return Membership(options);
}

constexpr Instant kNow{10'000};

Admission join(Membership& members, LinkId link, const NodeIdentity& id, Instant now = kNow) {
  return members.admit(now, link, {id, "instance of " + std::to_string(link), "nonce"});
}

template <class Event>
int count(const GroupEvents& events) {
  int n = 0;
  for (const GroupEvent& event : events) n += std::holds_alternative<Event>(event) ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("numbers are asked for or given out in order, once each", "[control]") {
  Membership members = table(4);
  CHECK(join(members, 1, node_named("n3", 3)).node == 3);
  CHECK(join(members, 2, node_named("a")).node == 1);
  CHECK_THAT(members.missing({}), Contains("3 of 4") && Contains("node 2"));
  CHECK_THAT(members.missing({"n0", "n3", "a", "late-one"}), Contains("missing: late-one"));
  const auto twice = join(members, 3, node_named("b", 3));
  REQUIRE(twice.refusal);
  CHECK(twice.refusal->kind == RefusalKind::kFinal);
  CHECK_THAT(twice.refusal->text, Contains("node rank 3 is taken by n3") && Contains("b (pid"));
  CHECK_THAT(join(members, 3, node_named("b", 0)).refusal->text, Contains("taken by n0"));
  CHECK_THAT(join(members, 3, node_named("b", 4)).refusal->text, Contains("0 to 3"));
  CHECK(join(members, 3, node_named("b")).node == 2);
  CHECK_THAT(join(members, 4, node_named("c")).refusal->text,
             Contains("one node too many") && Contains("--nnodes"));
  CHECK(members.complete());
}

TEST_CASE("a node that differs is refused, with both values", "[control]") {
  Membership members = table(2);
  const auto refused = [&](NodeIdentity id) {
    return join(members, 1, id).refusal.value_or(RefuseMessage{}).text;
  };
  NodeIdentity id = node_named("n1");
  id.job_digest = "j2";
  CHECK_THAT(refused(id), Contains("job spec") && Contains("j2") && Contains("j1") && Contains("n1"));
  id = node_named("n1");
  id.data_digest = "d2";
  CHECK_THAT(refused(id), Contains("data") && Contains("d2") && Contains("d1"));
  id = node_named("n1");
  id.build = "b2";
  CHECK_THAT(refused(id), Contains("build") && Contains("b2") && Contains("b1"));
  id = node_named("n1");
  id.rdzv_id = "other";
  CHECK_THAT(refused(id), Contains("--rdzv-id") && Contains("other"));
  CHECK(members.size() == 1);
}

TEST_CASE("silence, loss and return", "[control]") {
  Membership members = table(3);
  join(members, 1, node_named("n1", 1));
  join(members, 2, node_named("n2", 2));
  GroupEvents events;
  const auto watch = [&](Instant now) {
    events.clear();
    members.watch(
        now, [](LinkId link) { return link == 1; }, events);
  };
  members.heard(kNow + Milliseconds{1'000}, 1, events);
  watch(kNow + Milliseconds{3'999});
  CHECK(events.empty());
  watch(kNow + Milliseconds{5'000});
  REQUIRE(count<MemberSilent>(events) == 2);
  CHECK(std::get<MemberSilent>(events[0]).link_acks);  // node 1: its process stands still
  CHECK_FALSE(std::get<MemberSilent>(events[1]).link_acks);
  CHECK_FALSE(members.lost_majority());
  events.clear();
  members.heard(kNow + Milliseconds{6'000}, 2, events);
  CHECK(count<MemberBack>(events) == 1);
  watch(kNow + Milliseconds{7'000});
  CHECK(events.empty());  // said once

  members.closed(2, false, "timed out", events);  // the link is dead; of the process nothing is known
  CHECK(count<MemberSilent>(events) == 1);
  auto again = members.admit(kNow + Milliseconds{9'000}, 5, {node_named("n2", 2), "instance of 2", "nonce"});
  CHECK(again.node == 2);
  CHECK(count<MemberBack>(again.events) == 1);  // the same process over another link
  events.clear();
  members.closed(5, true, "end of stream", events);
  REQUIRE(count<MemberLost>(events) == 1);
  again = join(members, 6, node_named("n2", 2));
  CHECK(again.node == 2);
  CHECK(std::get<MemberJoined>(again.events.at(0)).returning);
}

TEST_CASE("a new process takes the place of a silent one, not of a live one", "[control]") {
  Membership members = table(2);
  join(members, 1, node_named("n1", 1));
  CHECK(join(members, 2, node_named("n1", 1)).refusal->kind ==
        RefusalKind::kRetryBriefly);  // the old one may have died just now
  CHECK(join(members, 2, node_named("n9", 1)).refusal->kind == RefusalKind::kFinal);
  GroupEvents events;
  members.watch(
      kNow + Milliseconds{4'000}, [](LinkId) { return false; }, events);
  CHECK(members.lost_majority() == false);  // one of two is no majority
  const Admission second = join(members, 2, node_named("n1", 1), kNow + Milliseconds{5'000});
  CHECK(second.node == 1);
  CHECK(second.replaced == 1);
  CHECK(count<MemberLost>(second.events) == 1);
  CHECK(count<MemberJoined>(second.events) == 1);
}

TEST_CASE("a spare takes the lost one's number; who comes back then waits", "[control]") {
  Membership members = table(3, true);
  join(members, 1, node_named("n1", 1));
  join(members, 2, node_named("n2", 2));
  CHECK(count<SpareJoined>(join(members, 3, node_named("s")).events) == 1);
  GroupEvents events;
  CHECK_FALSE(members.promote(kNow, 2, events));  // not while its holder lives
  members.closed(1, true, "end of stream", events);
  members.closed(2, true, "end of stream", events);
  CHECK(members.lost_majority());
  CHECK(members.promote(kNow, 2, events) == LinkId{3});
  CHECK_FALSE(members.lost_majority());
  CHECK_FALSE(members.promote(kNow, 1, events));  // no spare is left
  CHECK(join(members, 4, node_named("n2", 2)).node == -1);
  CHECK(members.num_spares() == 1);
}

TEST_CASE("a new leader waits for the members of the epoch before, for a while", "[control]") {
  Membership members = table(4);
  GroupEvents events;
  members.expect({{{0, "n0"}, {1, "n1"}, {2, "n2"}, {3, "n3"}}, {}}, 3, kNow + Milliseconds{4'000}, events);
  REQUIRE(count<MemberLost>(events) == 1);  // the leader of the epoch before
  CHECK(std::get<MemberLost>(events[0]).node == 3);
  const Admission back = join(members, 1, node_named("n1", 1));
  CHECK(std::get<MemberJoined>(back.events.at(0)).returning);
  CHECK(join(members, 2, node_named("new")).node == 3);  // number 2 is kept for its node
  events.clear();
  members.watch(
      kNow + Milliseconds{3'999}, [](LinkId) { return true; }, events);
  CHECK(count<MemberLost>(events) == 0);
  members.watch(
      kNow + Milliseconds{4'000}, [](LinkId) { return true; }, events);
  REQUIRE(count<MemberLost>(events) == 1);
}

TEST_CASE("an excluded node is refused, with the reason, wherever it asks; its number is free", "[control]") {
  Membership members = table(3, true);
  join(members, 1, node_named("n1", 1));
  join(members, 2, node_named("n2", 2));
  CHECK(members.exclude(1, "n1 ate a step") == 1);
  CHECK(members.exclude(0, "nobody has this number") == 0);
  const auto refused = join(members, 3, node_named("n1", 1)).refusal;  // another process on its host
  REQUIRE(refused);
  CHECK(refused->kind == RefusalKind::kFinal);
  CHECK(refused->code == ErrorCode::kPreflight);
  CHECK(refused->text == "n1 ate a step");
  CHECK(join(members, 4, node_named("n4")).node == 1);
  // Where several agents are on one host, only the process itself is known.
  join(members, 5, node_named("n2"));
  members.exclude(1, "n4 as well");
  CHECK(join(members, 4, node_named("n2")).refusal.has_value());
  CHECK_FALSE(join(members, 6, node_named("n2")).refusal.has_value());
}

TEST_CASE("what one leader excludes, the next one knows; a leader's own host too, once it leads no more",
          "[control]") {
  Membership first = table(3, true);
  join(first, 1, node_named("n1", 1));
  first.exclude(1, "n1 ate a step");
  first.exclude(0, "n0 as well");
  Membership next({node_named("n2", 2), 2, 3, 1, true, Milliseconds{4'000}});
  GroupEvents events;
  next.expect(first.legacy(), 0, kNow + Milliseconds{4'000}, events);
  CHECK(next.legacy().excluded == first.legacy().excluded);
  CHECK(join(next, 1, node_named("n1")).refusal->text == "n1 ate a step");
  CHECK(join(next, 2, node_named("n0", 0)).refusal->text == "n0 as well");
  CHECK_FALSE(join(next, 3, node_named("n3")).refusal.has_value());
}
