#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include <fmt/format.h>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/store.hpp"
#include "llmtrain/control/store_wire.hpp"
#include "llmtrain/core/unique_fd.hpp"

// One thread takes replies off the socket and hands them to whoever waits for their number.
namespace llmtrain {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// The agent may have to ask another host: how much later than the deadline its answer may come.
constexpr milliseconds kAnswerSlack{5'000};
constexpr milliseconds kSetTimeout{30'000};

class AgentStore final : public Store {
 public:
  explicit AgentStore(int fd) : socket_(fd), reader_([this] { read_replies(); }) {}
  ~AgentStore() override {
    ::shutdown(socket_.get(), SHUT_RDWR);
    reader_.join();
  }

  void set(const std::string& key, const std::string& value) override {
    if (key.size() > StoreLimits::kKey || value.size() > StoreLimits::kValue)
      throw CommError(
          fmt::format("the agent's store takes keys of {} and values of {} bytes; {} has {} and {}",
                      StoreLimits::kKey,
                      StoreLimits::kValue,
                      key.substr(0, 60),
                      key.size(),
                      value.size()),
          {});
    StoreRequest request{.op = StoreRequest::Op::kSet, .key = key, .value = value};
    if (!ask(std::move(request), Clock::now() + kSetTimeout))
      throw CommError(fmt::format("the agent's store did not take {}: its agent does not answer", key), {});
  }

  std::optional<std::string> get(const std::string& key, milliseconds timeout) override {
    if (key.size() > StoreLimits::kKey) return std::nullopt;
    const milliseconds asked = std::clamp(timeout, milliseconds(0), milliseconds(0xFFFFFFFFLL));
    StoreRequest request{.op = StoreRequest::Op::kGet, .key = key};
    request.timeout_ms = static_cast<std::uint32_t>(asked.count());
    return ask(std::move(request), Clock::now() + asked + kAnswerSlack);
  }

 private:
  struct Answer {
    bool arrived = false;
    std::optional<std::string> value;
  };

  std::optional<std::string> ask(StoreRequest request, Clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    const std::uint32_t id = request.id = ++last_id_;
    Answer& answer = answers_[id];
    lock.unlock();
    const bool sent = send(encode(request), deadline);
    lock.lock();
    if (sent) changed_.wait_until(lock, deadline, [&] { return answer.arrived || closed_; });
    std::optional<std::string> value = std::move(answer.value);
    answers_.erase(id);
    return value;
  }

  // Packets are whole or not there, so that senders need no lock.
  bool send(const std::string& packet, Clock::time_point deadline) {
    while (true) {
      if (::send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return true;
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      pollfd room{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
    }
  }

  void read_replies() {
    std::string packet(StoreLimits::kPacket, '\0');
    while (true) {
      const ssize_t size = ::recv(socket_.get(), packet.data(), packet.size(), 0);
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      auto reply = decode_store_reply(std::string_view(packet).substr(0, static_cast<std::size_t>(size)));
      if (reply) deliver(std::move(*reply));
    }
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  void deliver(StoreReply reply) {
    const std::lock_guard lock(mutex_);
    const auto waiting = answers_.find(reply.id);
    if (waiting == answers_.end()) return;  // whoever asked has given up
    waiting->second = {.arrived = true, .value = std::move(reply.value)};
    changed_.notify_all();
  }

  UniqueFd socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, Answer> answers_;  // of calls in flight; references stay
  std::uint32_t last_id_ = 0;
  bool closed_ = false;
  std::thread reader_;  // last: it uses all above
};

}  // namespace

std::shared_ptr<Store> make_agent_store(int fd) {
  return std::make_shared<AgentStore>(fd);
}

}  // namespace llmtrain
