#include "tests/control/agents.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

// Three agents that have found each other: 0 leads, 1 and 2 follow.
struct Trio : test::Agents {
  int a, b, c;
  Trio() : a(add(founder(3))), b(add(node(3, 1))), c(add(node(3, 2))) {
    CHECK(wait<BecameLeader>(a, "the founder leads").epoch == 1);
    wait<MemberJoined>(a, "one joins");
    wait<MemberJoined>(a, "another joins");
    CHECK(wait<FollowsLeader>(b, "1 follows").node == 1);
    CHECK(wait<FollowsLeader>(c, "2 follows").leader_host == "host0");
  }
};

}  // namespace

TEST_CASE("three agents join, and payloads pass both ways in order", "[control]") {
  Trio t;
  CHECK(t[t.a].leads());
  CHECK(t[t.b].epoch() == 1);
  const std::string large(3'000'000, 'x');
  CHECK(t[t.a].send(1, "first"));
  CHECK(t[t.a].send(1, large));
  CHECK(t[t.c].send_to_leader("from two"));
  CHECK_FALSE(t[t.a].send(7, "nobody"));
  CHECK_FALSE(t[t.a].send(1, std::string(5'000'000, 'x')));
  CHECK_FALSE(t[t.a].send_to_leader("a leader has none"));
  CHECK(t.wait<Received>(t.b, "the first").payload == "first");
  CHECK(t.wait<Received>(t.b, "the large one").payload == large);
  const auto received = t.wait<Received>(t.a, "the leader hears");
  CHECK(received.node == 2);
  CHECK(received.payload == "from two");

  t[t.b].release();
  CHECK_THAT(t.wait<MemberLost>(t.a, "1 left").reason, Contains("good order"));
  t[t.a].release();
  CHECK(t.wait<LeaderLost>(t.c, "the end is heard").ended);
  CHECK_FALSE(t[t.c].deadline().has_value());
}

TEST_CASE("the leader dies: the lowest survivor leads a new epoch", "[control]") {
  Trio t;
  t.kill(t.a);
  CHECK_FALSE(t.wait<LeaderSilent>(t.b, "1 notices at once").link_acks);
  CHECK(t.wait<BecameLeader>(t.b, "1 takes over").epoch == 2);
  CHECK(t.wait<MemberLost>(t.b, "the old leader is lost").node == 0);
  const auto back = t.wait<MemberJoined>(t.b, "2 comes along");
  CHECK((back.node == 2 && back.returning));
  t.wait<LeaderLost>(t.c, "2 loses its leader");
  const auto follows = t.wait<FollowsLeader>(t.c, "2 follows 1");
  CHECK((follows.epoch == 2 && follows.node == 2 && follows.leader_host == "host1"));

  // The old leader's node is started again by hand, as it was the first time.
  const int again = t.add(t.founder(3));
  CHECK(t.wait<FollowsLeader>(again, "node 0 joins the new leader").node == 0);
  const auto zero = t.wait<MemberJoined>(t.b, "its number is its own");
  CHECK((zero.node == 0 && zero.returning));
}

TEST_CASE("a member that dies is lost at once; one that stands still is silent", "[control]") {
  Trio t;
  t.kill(t.c);
  CHECK(t.wait<MemberLost>(t.a, "2 is lost").node == 2);
  t.stop(t.b);
  const auto silent = t.wait<MemberSilent>(t.a, "1 is silent");
  CHECK((silent.node == 1 && silent.link_acks));  // its kernel lives
  t.resume(t.b);
  CHECK(t.wait<MemberBack>(t.a, "1 is back").node == 1);
  CHECK_FALSE(t.saw<LeaderLost>(t.b));
}

TEST_CASE("a leader that stands still is succeeded, and fenced when it goes on", "[control]") {
  Trio t;
  t.stop(t.a);
  CHECK(t.wait<LeaderSilent>(t.b, "1 hears nothing").link_acks);
  CHECK(t.wait<BecameLeader>(t.b, "1 takes over").epoch == 2);
  t.wait<FollowsLeader>(t.c, "2 follows");
  t.resume(t.a);
  CHECK(t.wait<Fenced>(t.a, "0 is fenced").epoch == 2);
  CHECK_FALSE(t[t.a].leads());
  CHECK_FALSE(t[t.a].send(1, "too late"));
}

TEST_CASE("a leader that yields is succeeded without waiting for its lease", "[control]") {
  Trio t;
  t[t.a].yield_lead();
  t.wait<Fenced>(t.a, "it is out");
  CHECK(t.wait<BecameLeader>(t.b, "1 takes over").epoch == 2);
}

TEST_CASE("a spare waits and takes a lost number", "[control]") {
  test::Agents agents;
  ControlOptions first = agents.founder(2);
  first.max_nodes = 3;
  first.world_nodes = 2;
  ControlOptions second = agents.node(2, 1), third = agents.node(2, 2);
  second.max_nodes = third.max_nodes = 3;
  second.world_nodes = third.world_nodes = 2;
  third.self.node_rank.reset();
  const int a = agents.add(first), b = agents.add(second);
  agents.wait<MemberJoined>(a, "1 joins");
  const int s = agents.add(third);
  CHECK(agents.wait<SpareJoined>(a, "a spare").identity.host == "host2");
  CHECK(agents.wait<FollowsLeader>(s, "it waits").node == -1);
  CHECK(agents[a].num_spares() == 1);
  CHECK_FALSE(agents[a].promote_spare(1));  // its holder lives
  agents.kill(b);
  CHECK(agents.wait<MemberLost>(a, "1 is lost").node == 1);
  CHECK(agents[a].promote_spare(1));
  CHECK(agents.wait<MemberJoined>(a, "the spare steps in").identity.host == "host2");
  CHECK(agents.wait<FollowsLeader>(s, "with the number").node == 1);
  CHECK(agents[s].send_to_leader("at work"));
  CHECK(agents.wait<Received>(a, "and is heard").node == 1);
  agents[a].give_up(1);
  agents.wait<MemberJoined>(a, "given up without a reason, it comes back");
}

TEST_CASE("64 agents join", "[control]") {
  test::Agents agents;
  const Instant start = steady_now();
  const int leader = agents.add(agents.founder(64));
  for (int node = 1; node < 64; ++node) agents.add(agents.node(64, node));
  int joined = 0;
  agents.until(
      [&] {
        while (agents.take<MemberJoined>(leader)) ++joined;
        return joined == 63;
      },
      "all are here");
  WARN("64 agents joined in " << (steady_now() - start).count() << " ms");
}
