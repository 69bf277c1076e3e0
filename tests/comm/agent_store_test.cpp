#include <map>
#include <thread>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/store.hpp"
#include "llmtrain/control/store_wire.hpp"
#include "llmtrain/core/unique_fd.hpp"

#include "tests/support/catch.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;

namespace {

// The other end of the socket: answers sets at once, and gets when their key is there or at the end.
class Agent {
 public:
  Agent() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    own_ = UniqueFd(ends[0]);
    store_ = make_agent_store(ends[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~Agent() {
    leave();
    store_.reset();
  }
  Store& store() { return *store_; }
  // As an agent that was killed.
  void leave() {
    ::shutdown(own_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void reply(std::uint32_t id, std::optional<std::string> value) {
    const std::string packet = encode(StoreReply{.id = id, .value = std::move(value)});
    (void)::send(own_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  }
  void serve() {
    std::string packet(StoreLimits::kPacket, '\0');
    for (ssize_t size = 0; (size = ::recv(own_.get(), packet.data(), packet.size(), 0)) > 0;) {
      const auto request =
          decode_store_request(std::string_view(packet).substr(0, static_cast<std::size_t>(size)));
      if (!request || request->key == "unanswered") continue;
      if (request->op == StoreRequest::Op::kSet) {
        values_[request->key] = request->value;
        reply(request->id, "");
        for (const auto& [id, key] : std::exchange(waiting_, {})) answer(id, key, 1);
      } else {
        answer(request->id, request->key, request->timeout_ms);
      }
    }
  }
  void answer(std::uint32_t id, const std::string& key, std::uint32_t timeout_ms) {
    const auto found = values_.find(key);
    if (found != values_.end())
      reply(id, found->second);
    else if (timeout_ms == 0)
      reply(id, std::nullopt);
    else
      waiting_.emplace_back(id, key);
  }

  UniqueFd own_;
  std::shared_ptr<Store> store_;
  std::map<std::string, std::string> values_;
  std::vector<std::pair<std::uint32_t, std::string>> waiting_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("agent store: what is set is got, of any bytes and up to the limit", "[comm]") {
  Agent agent;
  agent.store().set("a", "");
  agent.store().set("b", std::string("\0\xFF", 2));
  agent.store().set("c", std::string(StoreLimits::kValue, 'x'));
  CHECK(agent.store().get("a", 10s) == "");
  CHECK(agent.store().get("b", 0ms) == std::string("\0\xFF", 2));
  CHECK(agent.store().get("c", 10s)->size() == StoreLimits::kValue);
  CHECK(agent.store().get("d", 0ms) == std::nullopt);
  CHECK_THROWS_AS(agent.store().set("d", std::string(StoreLimits::kValue + 1, 'x')), CommError);
  CHECK(agent.store().get(std::string(StoreLimits::kKey + 1, 'k'), 0ms) == std::nullopt);
}

TEST_CASE("agent store: threads that wait for keys do not hold up each other", "[comm]") {
  Agent agent;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      const auto value = agent.store().get(fmt::format("key {}", i), 60s);
      if (value == std::to_string(i)) ++right;
    });
  for (int i = 7; i >= 0; --i) agent.store().set(fmt::format("key {}", i), std::to_string(i));
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
}

TEST_CASE("agent store: an agent that goes ends every wait, and answers nothing from then on", "[comm]") {
  Agent agent;
  std::thread waiting([&] { CHECK(agent.store().get("never", 600s) == std::nullopt); });
  agent.store().set("there", "1");
  agent.leave();
  waiting.join();
  CHECK(agent.store().get("there", 600s) == std::nullopt);
  CHECK_THROWS_AS(agent.store().set("more", "1"), CommError);
}
