#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "llmtrain/control/lease_store.hpp"
#include "llmtrain/core/exit_code.hpp"
#include "llmtrain/core/unique_fd.hpp"

#include "tests/control/agents.hpp"

using namespace llmtrain;
using Catch::Matchers::Contains;

namespace {

UniqueFd connect_to(int port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

int port_of_leader(const test::Agents& agents) {
  const auto files = make_posix_filesystem();
  return LeaseStore(agents.directory() + "/control", *files).look()->newest->port;
}

bool closed_by_other_side(int fd) {
  char byte;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace

TEST_CASE("who does not belong is refused, with its reason", "[control]") {
  test::Agents agents;
  const int leader = agents.add(agents.founder(2));
  agents.wait<BecameLeader>(leader, "it leads");
  ControlOptions o = agents.node(2, 1);
  std::string reason;
  SECTION("a wrong token") {
    o.token = "a token of another run";
    reason = "token";
  }
  SECTION("another job") {
    o.self.rdzv_id = "other";
    reason = "--rdzv-id";
  }
  SECTION("another spec") {
    o.self.job_digest = "changed";
    reason = "job spec";
  }
  SECTION("other data") {
    o.self.data_digest = "changed";
    reason = "data";
  }
  SECTION("another build") {
    o.self.build = "changed";
    reason = "build";
  }
  SECTION("a rank that is taken") {
    o.self.node_rank = 0;
    reason = "node rank 0 is taken by host0";
  }
  SECTION("another run directory") {
    o.control_dir = agents.directory() + "/elsewhere";
    o.endpoint = fmt::format("127.0.0.1:{}", port_of_leader(agents));
    reason = "run.dir must be one directory";
  }
  const int stranger = agents.add(o);
  const auto refused = agents.wait<JoinRefused>(stranger, "it is refused");
  CHECK_THAT(refused.message, Contains(reason));
  CHECK(exit_code_for(refused.code) != ExitCode::kDone);
  CHECK_FALSE(agents[stranger].deadline().has_value());
  CHECK_FALSE(agents.saw<MemberJoined>(leader));
}

TEST_CASE("one node too many is refused", "[control]") {
  test::Agents agents;
  const int leader = agents.add(agents.founder(2));
  agents.add(agents.node(2, 1));
  agents.wait<MemberJoined>(leader, "1 joins");
  ControlOptions o = agents.node(2, 2);
  o.self.node_rank.reset();
  CHECK_THAT(agents.wait<JoinRefused>(agents.add(o), "refused").message, Contains("too many"));
}

TEST_CASE("who is missing is said by name, and waiting ends", "[control]") {
  test::Agents agents;
  ControlOptions o = agents.founder(3);
  o.expected_hosts = {"host0", "host1", "host2"};
  o.join_timeout = Milliseconds{7'000};
  const int leader = agents.add(o);
  agents.add(agents.node(3, 1));
  const auto missing = agents.wait<StillMissing>(leader, "who is missing");
  CHECK_THAT(missing.text, Contains("2 of 3") && Contains("host2") && !Contains("host1"));
  CHECK_THAT(agents.wait<JoinTimedOut>(leader, "the end of waiting").message, Contains("host2"));

  ControlOptions lost = agents.node(3, 2);
  lost.control_dir = agents.directory() + "/nobody";
  lost.endpoint = "no-such-host.invalid:1";
  lost.join_timeout = Milliseconds{1'500};
  CHECK_THAT(agents.wait<JoinTimedOut>(agents.add(lost), "no leader").message,
             Contains("no-such-host.invalid"));
}

TEST_CASE("bad endpoints are refused when the group is opened", "[control]") {
  test::Agents agents;
  const auto files = make_posix_filesystem();
  const auto refusal = [&](ControlOptions o) {
    const auto group = ControlGroup::open(std::move(o), *files);
    return group ? std::string("opened") : to_string(group.error());
  };
  ControlOptions o = agents.founder(2);
  o.endpoint = "host:port:more";
  CHECK_THAT(refusal(o), Contains("host:port:more"));
  o.endpoint = "no-such-host.invalid:29400";
  CHECK_THAT(refusal(o), Contains("no-such-host.invalid") && Contains("resolve"));

  UniqueFd holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(holder.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::listen(holder.get(), 1) == 0);
  REQUIRE(::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  o.endpoint = fmt::format("127.0.0.1:{}", ntohs(address.sin_port));
  CHECK_THAT(refusal(o), Contains("is taken") && Contains("ss -ltnp"));
  o.self.node_rank.reset();  // it may be the port of the leader to join
  CHECK(refusal(o) == "opened");
  o.token.clear();
  CHECK_THAT(refusal(o), Contains("token"));
}

TEST_CASE("garbage, oversized and half-open connections cost little and end", "[control]") {
  test::Agents agents;
  const int leader = agents.add(agents.founder(2));
  agents.wait<BecameLeader>(leader, "it leads");
  const int port = port_of_leader(agents);

  std::vector<UniqueFd> strangers;
  const std::string bad[] = {"GET / HTTP/1.1\r\n\r\n",
                             std::string("\xff\xff\xff\xff", 4),
                             std::string(4, '\0'),
                             std::string("\x01\x00\x00\x00Z", 5),
                             std::string(100'000, '\x01')};
  for (const std::string& bytes : bad) {
    strangers.push_back(connect_to(port));
    ::send(strangers.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (int i = 0; i < 200; ++i) strangers.push_back(connect_to(port));  // they say nothing
  agents.until(
      [&] {
        for (const UniqueFd& fd : strangers)
          if (!closed_by_other_side(fd.get())) return false;
        return true;
      },
      "all strangers are gone");
  agents.add(agents.node(2, 1));
  CHECK(agents.wait<MemberJoined>(leader, "friends are still welcome").node == 1);
}

namespace {

// Local addresses as the kernel prints them, of sockets that listen on `port`.
std::vector<std::string> listeners(int port) {
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string slot, local, remote, state, line;
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      words >> slot >> local >> remote >> state;
      if (state == "0A" && local.ends_with(fmt::format(":{:04X}", port)))
        found.push_back(local.substr(0, local.find(':')));
    }
  }
  return found;
}

bool has_ipv6_loopback() {
  std::ifstream addresses("/proc/net/if_inet6");
  std::string line;
  while (std::getline(addresses, line))
    if (line.ends_with(" lo")) return true;
  return false;
}

}  // namespace

TEST_CASE("an endpoint of loopback may be spelled in any way, and is open to this host only", "[control]") {
  auto [endpoint, listens_on] = GENERATE(table<std::string, std::string>({
      {"127.0.0.1", "0100007F"},
      {"localhost", "0100007F"},
      {"[::1]", "00000000000000000000000001000000"},
  }));
  if (endpoint == "[::1]" && !has_ipv6_loopback()) {
    WARN("this host has no IPv6: " << endpoint << " is left out");
    return;
  }
  test::Agents agents;
  ControlOptions first = agents.founder(2);
  first.endpoint = endpoint + ":0";
  const int leader = agents.add(first);
  agents.wait<BecameLeader>(leader, "it leads");
  const int port = port_of_leader(agents);
  CHECK(listeners(port) == std::vector<std::string>{listens_on});
  // It sees another directory: the endpoint is all that leads it to the leader, who knows it by its token.
  ControlOptions stranger = agents.node(2, 1);
  stranger.control_dir = agents.directory() + "/elsewhere";
  stranger.endpoint = fmt::format("{}:{}", endpoint, port);
  stranger.token = "a token of another run";
  CHECK_THAT(agents.wait<JoinRefused>(agents.add(stranger), "it is refused").message, Contains("token"));
  // The run directory is what leads this one there.
  agents.add(agents.node(2, 1));
  CHECK(agents.wait<MemberJoined>(leader, "1 joins").node == 1);
}
