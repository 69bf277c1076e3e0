#include "llmtrain/core/tcp_send_time.hpp"

#include <array>
#include <string>
#include <thread>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "llmtrain/core/unique_fd.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBytes = 64 << 20;  // takes more than a tick of the kernel's clock

struct Connection {
  UniqueFd sender;
  UniqueFd receiver;
};

Connection connect_over_loopback() {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener.get(), any, size) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), any, &size) == 0);
  Connection connection;
  connection.sender = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(connection.sender.get(), any, size) == 0);
  connection.receiver = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return connection;
}

void send_all(int fd, std::size_t bytes) {
  const std::string chunk(1 << 16, 'x');
  while (bytes > 0) {
    const ssize_t sent = ::send(fd, chunk.data(), std::min(bytes, chunk.size()), MSG_NOSIGNAL);
    REQUIRE(sent > 0);
    bytes -= static_cast<std::size_t>(sent);
  }
}

void receive_all(int fd, std::size_t bytes) {
  std::array<char, 1 << 16> chunk{};
  while (bytes > 0) {
    const ssize_t got = ::recv(fd, chunk.data(), std::min(bytes, chunk.size()), 0);
    if (got <= 0) return;
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace

TEST_CASE("tcp send time: what is on its way counts, and what has arrived does not", "[core]") {
  Connection connection = connect_over_loopback();
  TcpSendTime time;
  CHECK(time.total() == 0us);

  {
    const std::jthread reader([&] { receive_all(connection.receiver.get(), kBytes); });
    send_all(connection.sender.get(), kBytes);
  }
  const auto sent = time.total();
  CHECK(sent > 0us);
  CHECK(time.total() - sent < 1ms);  // nothing is on its way
}

TEST_CASE("tcp send time: connections that are gone stay counted, and no other descriptor is", "[core]") {
  TcpSendTime time;
  {
    Connection connection = connect_over_loopback();
    CHECK(time.total() == 0us);  // looks for connections
    {
      const std::jthread reader([&] { receive_all(connection.receiver.get(), kBytes); });
      send_all(connection.sender.get(), kBytes);
    }
    CHECK(time.total() > 0us);
  }
  const auto before = time.total();
  std::array<int, 2> pair{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
  for (int call = 0; call < 200; ++call) CHECK(time.total() == before);
  ::close(pair[0]);
  ::close(pair[1]);
}
