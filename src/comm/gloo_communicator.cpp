#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/shm/call_queue.hpp"

#include "element_type.hpp"
#include "gloo_group.hpp"
#include "tensor_checks.hpp"

// Collectives as messages that every rank sends directly to every other, so that each wait knows its peer.
//
// A part of a sum goes to the rank that adds it up in rank order (reduce_arrays, as in shared memory); an
// all_reduce sends the parts back out. That is as little traffic as a ring has, in two hops instead of
// 2 (size - 1).
namespace llmtrain {
namespace {

using Messages = std::vector<GlooGroup::Message>;

// Below this size every rank adds up everything itself: one hop instead of two.
constexpr std::int64_t kOneHopBytes = 8 * 1024;
// What passes at a time, so that the memory for arriving parts stays small.
constexpr std::int64_t kPassBytes = 8 * 1024 * 1024;

void copy_bytes(const at::Tensor& to, const at::Tensor& from) {
  if (to.data_ptr() != from.data_ptr() && from.nbytes() > 0)
    std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
}

// One collective call of one rank: posts messages, and waits for all of them.
class Exchange {
 public:
  Exchange(GlooGroup& group, std::string subject) : group_(group), subject_(std::move(subject)) {}

  // Empty parts are known to be empty on both sides.
  void send(const at::Tensor& part, int to) {
    if (part.numel() > 0) messages_.push_back(group_.send(part, to, GlooGroup::kCollectives));
  }
  void recv(const at::Tensor& part, int from) {
    if (part.numel() > 0) messages_.push_back(group_.recv(part, from, GlooGroup::kCollectives));
  }
  Status wait() {
    Messages messages = std::exchange(messages_, {});
    for (std::size_t i = 0; i < messages.size(); ++i) {
      Status status = group_.wait(messages[i], subject_);
      if (status) continue;
      for (; i < messages.size(); ++i) group_.abandon(std::move(messages[i]));
      return status;
    }
    return ok_status();
  }

 private:
  GlooGroup& group_;
  std::string subject_;
  Messages messages_;
};

// The elements begin..end of a flat tensor.
at::Tensor slice(const at::Tensor& flat, std::int64_t begin, std::int64_t end) {
  return flat.narrow(0, begin, end - begin);
}

class GlooCollectives {
 public:
  explicit GlooCollectives(GlooGroup& group) : group_(group) {}

  Status all_reduce(const at::Tensor& inout, ReduceOp op) {
    Exchange exchange(group_, next("all_reduce"));
    const at::Tensor flat = inout.view(-1);  // [n]
    const std::int64_t n = flat.numel();
    if (n * flat.element_size() <= kOneHopBytes) return reduce_everywhere(exchange, flat, op);
    const std::int64_t pass = kPassBytes / flat.element_size();
    for (std::int64_t begin = 0; begin < n; begin += pass)
      LLMTRAIN_TRY(reduce_in_parts(exchange, slice(flat, begin, std::min(n, begin + pass)), op));
    return ok_status();
  }

  Status reduce_scatter(const at::Tensor& in, const at::Tensor& out, ReduceOp op) {
    Exchange exchange(group_, next("reduce_scatter"));
    const at::Tensor flat_out = out.view(-1);  // [n]
    const std::int64_t n = flat_out.numel();
    const at::Tensor parts = in.view({size(), n});  // [size, n]
    const std::int64_t pass = std::max<std::int64_t>(1, kPassBytes / size() / in.element_size());
    for (std::int64_t begin = 0; begin < n; begin += pass) {
      const std::int64_t end = std::min(n, begin + pass);
      const auto part = [&](int member) { return slice(parts.select(0, member), begin, end); };
      LLMTRAIN_TRY(collect_and_reduce(exchange, part, slice(flat_out, begin, end), op));
    }
    return ok_status();
  }

  Status all_gather(const at::Tensor& in, const at::Tensor& out) {
    Exchange exchange(group_, next("all_gather"));
    return gather(exchange, in.view(-1), out.view({size(), in.numel()}));
  }

  Status all_to_all(const at::Tensor& in, const at::Tensor& out) {
    Exchange exchange(group_, next("all_to_all"));
    const at::Tensor parts_in = in.view({size(), in.numel() / size()});    // [size, n]
    const at::Tensor parts_out = out.view({size(), in.numel() / size()});  // [size, n]
    for_peers([&](int peer) { exchange.recv(parts_out.select(0, peer), peer); });
    for_peers([&](int peer) { exchange.send(parts_in.select(0, peer), peer); });
    copy_bytes(parts_out.select(0, rank()), parts_in.select(0, rank()));
    return exchange.wait();
  }

  Status broadcast(const at::Tensor& inout, int root) {
    Exchange exchange(group_, next("broadcast"));
    if (rank() == root)
      for_peers([&](int peer) { exchange.send(inout, peer); });
    else
      exchange.recv(inout, root);
    return exchange.wait();
  }

  Status barrier() {
    Exchange exchange(group_, next("barrier"));
    const at::Tensor marks = at::empty({size(), 1}, at::kByte);  // [size, 1]
    return gather(exchange, at::empty({1}, at::kByte), marks);
  }

 private:
  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  std::string next(const char* verb) { return fmt::format("{} #{}", verb, ++calls_); }

  // Ranks begin with their own neighbour, so that not all of them send to rank 0 first.
  template <class Body>
  void for_peers(Body&& body) const {
    for (int distance = 1; distance < size(); ++distance) body((rank() + distance) % size());
  }

  Status gather(Exchange& exchange, const at::Tensor& own, const at::Tensor& parts) const {
    for_peers([&](int peer) { exchange.recv(parts.select(0, peer), peer); });
    for_peers([&](int peer) { exchange.send(own, peer); });
    copy_bytes(parts.select(0, rank()), own);
    return exchange.wait();
  }

  Status reduce_everywhere(Exchange& exchange, const at::Tensor& flat, ReduceOp op) {
    const at::Tensor parts = at::empty({size(), flat.numel()}, flat.options());  // [size, n]
    LLMTRAIN_TRY(gather(exchange, flat, parts));
    reduce(flat, parts, op);
    return ok_status();
  }

  Status reduce_in_parts(Exchange& exchange, const at::Tensor& flat, ReduceOp op) {
    const std::int64_t n = flat.numel();
    const std::int64_t share = (n + size() - 1) / size();
    const auto part = [&](int member) {
      return slice(flat, std::min(n, share * member), std::min(n, share * (member + 1)));
    };
    const at::Tensor own = part(rank());  // [share], fewer for the last ranks
    LLMTRAIN_TRY(collect_and_reduce(exchange, part, own, op));
    for_peers([&](int peer) { exchange.recv(part(peer), peer); });
    for_peers([&](int peer) { exchange.send(own, peer); });
    return exchange.wait();
  }

  // `part(r)` goes to rank r; what the others have of this rank's part is added up into `out`.
  template <class Part>
  Status collect_and_reduce(Exchange& exchange, Part&& part, const at::Tensor& out, ReduceOp op) const {
    const at::Tensor parts = at::empty({size(), out.numel()}, out.options());  // [size, n]
    for_peers([&](int peer) { exchange.recv(parts.select(0, peer), peer); });
    for_peers([&](int peer) { exchange.send(part(peer), peer); });
    copy_bytes(parts.select(0, rank()), part(rank()));
    LLMTRAIN_TRY(exchange.wait());
    reduce(out, parts, op);
    return ok_status();
  }

  void reduce(const at::Tensor& out, const at::Tensor& parts, ReduceOp op) const {
    std::vector<const void*> inputs;
    for (int member = 0; member < size(); ++member)
      inputs.push_back(parts.select(0, member).const_data_ptr());
    reduce_arrays(out.data_ptr(),
                  nullptr,
                  inputs.data(),
                  size(),
                  static_cast<std::size_t>(out.numel()),
                  element_type_of(out),
                  op);
  }

  GlooGroup& group_;
  std::uint64_t calls_ = 0;
};

// What calls in flight hold: it lives until the last of them is through.
struct GlooState {
  GlooState(const std::shared_ptr<Store>& store, const RemoteGroupOptions& options)
      : group(store, options), collectives(group) {}
  GlooGroup group;
  GlooCollectives collectives;
};

[[noreturn]] void throw_comm_error(const Error& error, const GlooGroup& group) {
  throw CommError(to_string(error), group.missing_ranks());
}

class GlooCall final : public Pending {
 public:
  GlooCall(std::shared_ptr<GlooState> state, std::shared_ptr<ProgressEngine::Ticket> ticket)
      : state_(std::move(state)), ticket_(std::move(ticket)) {}
  void wait() override {
    if (const Status status = ticket_->wait(); !status) throw_comm_error(status.error(), state_->group);
  }

 private:
  std::shared_ptr<GlooState> state_;
  std::shared_ptr<ProgressEngine::Ticket> ticket_;
};

class GlooMessages final : public Pending {
 public:
  explicit GlooMessages(std::shared_ptr<GlooState> state) : state_(std::move(state)) {}
  ~GlooMessages() override {
    for (auto& [message, subject] : messages_) state_->group.abandon(std::move(message));
  }
  GlooMessages(const GlooMessages&) = delete;
  GlooMessages& operator=(const GlooMessages&) = delete;

  void add(GlooGroup::Message message, std::string subject) {
    messages_.emplace_back(std::move(message), std::move(subject));
  }
  void wait() override {
    for (const auto& [message, subject] : messages_)
      if (const Status status = state_->group.wait(message, subject); !status)
        throw_comm_error(status.error(), state_->group);
    messages_.clear();
  }

 private:
  std::shared_ptr<GlooState> state_;
  std::vector<std::pair<GlooGroup::Message, std::string>> messages_;
};

class GlooCommunicator final : public Communicator {
 public:
  GlooCommunicator(const std::shared_ptr<Store>& store,
                   const RemoteGroupOptions& options,
                   std::shared_ptr<ProgressEngine> engine)
      : state_(std::make_shared<GlooState>(store, options)),
        queue_(std::move(engine)),
        sent_(options.members.size()),
        received_(options.members.size()) {}
  ~GlooCommunicator() override {
    if (queue_.busy()) state_->group.cancel();
  }

  const std::string& name() const override { return state_->group.name(); }
  int rank() const override { return state_->group.rank(); }
  int size() const override { return state_->group.size(); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override { run(all_reduce_call(inout, op)); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    return start(all_reduce_call(inout, op));
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { run(all_gather_call(in, out)); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    return start(all_gather_call(in, out));
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    run(reduce_scatter_call(in, out, op));
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    return start(reduce_scatter_call(in, out, op));
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, 1);
    LLMTRAIN_CHECK(in.numel() % size() == 0, "all_to_all of {} elements over {} ranks", in.numel(), size());
    run([state = state_, in, out] { return state->collectives.all_to_all(in, out); });
  }
  void broadcast(at::Tensor& inout, int root) override {
    check_tensor(inout);
    LLMTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
    run([state = state_, inout, root] { return state->collectives.broadcast(inout, root); });
  }
  void send(const at::Tensor& tensor, int to) override { send_async(tensor, to)->wait(); }
  void recv(at::Tensor& tensor, int from) override { recv_async(tensor, from)->wait(); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    auto messages = std::make_unique<GlooMessages>(state_);
    add_send(*messages, tensor, to);
    return messages;
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    auto messages = std::make_unique<GlooMessages>(state_);
    add_recv(*messages, tensor, from);
    return messages;
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    auto messages = std::make_unique<GlooMessages>(state_);
    add_recv(*messages, in, from);
    add_send(*messages, out, to);
    return messages;
  }
  void barrier() override {
    run([state = state_] { return state->collectives.barrier(); });
  }
  void cancel() override { state_->group.cancel(); }

 private:
  std::function<Status()> all_reduce_call(const at::Tensor& inout, ReduceOp op) const {
    check_tensor(inout);
    element_type_of(inout);
    return [state = state_, inout, op] { return state->collectives.all_reduce(inout, op); };
  }
  std::function<Status()> all_gather_call(const at::Tensor& in, const at::Tensor& out) const {
    check_parts(in, out, size());
    return [state = state_, in, out] { return state->collectives.all_gather(in, out); };
  }
  std::function<Status()> reduce_scatter_call(const at::Tensor& in,
                                              const at::Tensor& out,
                                              ReduceOp op) const {
    check_parts(out, in, size());
    element_type_of(in);
    return [state = state_, in, out, op] { return state->collectives.reduce_scatter(in, out, op); };
  }

  void add_send(GlooMessages& messages, const at::Tensor& tensor, int to) {
    check_tensor(tensor);
    check_peer("send", rank(), to, size());
    std::string subject = fmt::format(
        "send #{} to rank {}", ++sent_[static_cast<std::size_t>(to)], state_->group.global_rank(to));
    messages.add(state_->group.send(payload(tensor), to, GlooGroup::kMessages), std::move(subject));
  }
  void add_recv(GlooMessages& messages, const at::Tensor& tensor, int from) {
    check_tensor(tensor);
    check_peer("recv", rank(), from, size());
    std::string subject = fmt::format("recv #{} from rank {}",
                                      ++received_[static_cast<std::size_t>(from)],
                                      state_->group.global_rank(from));
    messages.add(state_->group.recv(payload(tensor), from, GlooGroup::kMessages), std::move(subject));
  }
  // An empty message is one byte, so that it has its place among the others.
  static at::Tensor payload(const at::Tensor& tensor) {
    return tensor.numel() > 0 ? tensor : at::empty({1}, at::kByte);
  }

  std::unique_ptr<Pending> start(std::function<Status()> call) {
    return std::make_unique<GlooCall>(state_, queue_.start(std::move(call)));
  }
  void run(const std::function<Status()>& call) {
    if (const Status status = queue_.run(call); !status) throw_comm_error(status.error(), state_->group);
  }

  std::shared_ptr<GlooState> state_;
  CallQueue queue_;                  // of collectives
  std::vector<std::uint64_t> sent_;  // messages begun, by peer
  std::vector<std::uint64_t> received_;
};

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(const std::shared_ptr<Store>& store,
                                                     const RemoteGroupOptions& options,
                                                     std::shared_ptr<ProgressEngine> engine) {
  return std::make_unique<GlooCommunicator>(store, options, std::move(engine));
}

}  // namespace llmtrain
