#include <utility>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/shm/call_queue.hpp"
#include "llmtrain/shm/collectives.hpp"
#include "llmtrain/shm/message_queues.hpp"
#include "llmtrain/shm/point_to_point.hpp"

#include "element_type.hpp"
#include "tensor_checks.hpp"

namespace llmtrain {
namespace {

[[noreturn]] void throw_comm_error(const Error& error, const ShmGroup& group) {
  throw CommError(to_string(error), group.missing_ranks());
}

class ShmPending final : public Pending {
 public:
  // Without a ticket the call is done.
  ShmPending(std::shared_ptr<ShmGroup> group, std::shared_ptr<ProgressEngine::Ticket> ticket)
      : group_(std::move(group)), ticket_(std::move(ticket)) {}
  void wait() override {
    if (ticket_ == nullptr) return;
    if (const Status status = ticket_->wait(); !status) throw_comm_error(status.error(), *group_);
  }

 private:
  std::shared_ptr<ShmGroup> group_;
  std::shared_ptr<ProgressEngine::Ticket> ticket_;
};

class ShmSendRecv final : public Pending {
 public:
  ShmSendRecv(std::unique_ptr<Pending> sending, std::unique_ptr<Pending> receiving)
      : sending_(std::move(sending)), receiving_(std::move(receiving)) {}
  void wait() override {
    receiving_->wait();
    sending_->wait();
  }

 private:
  std::unique_ptr<Pending> sending_;
  std::unique_ptr<Pending> receiving_;
};

class ShmCommunicator final : public Communicator {
 public:
  ShmCommunicator(std::shared_ptr<ShmRegion> region,
                  const ShmGroupOptions& options,
                  std::shared_ptr<ProgressEngine> engine)
      : group_(std::make_shared<ShmGroup>(std::move(region), options)),
        collectives_(std::move(engine)),
        messages_(group_->size()) {}
  ~ShmCommunicator() override {
    // Nobody will wait for what is still in flight; it must not hold up the end until its deadline.
    if (collectives_.busy() || messages_.busy()) group_->cancel();
  }

  const std::string& name() const override { return group_->name(); }
  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

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
    run([group = group_, in, out] {
      return shm_all_to_all(
          *group, in.data_ptr(), out.data_ptr(), in.nbytes() / static_cast<std::size_t>(group->size()));
    });
  }
  void broadcast(at::Tensor& inout, int root) override {
    check_tensor(inout);
    run([group = group_, inout, root] {
      return shm_broadcast(*group, inout.data_ptr(), inout.nbytes(), root);
    });
  }
  void send(const at::Tensor& tensor, int to) override {
    expect_ok(messages_.to(to).run(send_call(tensor, to)));
  }
  void recv(at::Tensor& tensor, int from) override {
    expect_ok(messages_.from(from).run(recv_call(tensor, from)));
  }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    auto call = send_call(tensor, to);
    CallQueue& queue = messages_.to(to);
    if (queue.busy() || !shm_send_is_buffered(*group_, tensor.nbytes(), to))
      return std::make_unique<ShmPending>(group_, queue.start(std::move(call)));
    expect_ok(call());  // returns at once, and saves the way through another thread
    return std::make_unique<ShmPending>(group_, nullptr);
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    return std::make_unique<ShmPending>(group_, messages_.from(from).start(recv_call(tensor, from)));
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    auto sending = send_async(out, to);
    return std::make_unique<ShmSendRecv>(std::move(sending), recv_async(in, from));
  }
  void barrier() override {
    run([group = group_] { return shm_barrier(*group); });
  }
  void cancel() override { group_->cancel(); }

 private:
  // Calls hold their tensors: memory stays valid even if the caller unwinds without waiting.
  std::function<Status()> all_reduce_call(const at::Tensor& inout, ReduceOp op) {
    check_tensor(inout);
    return [group = group_, inout, op, type = element_type_of(inout)] {
      return shm_all_reduce(*group, inout.data_ptr(), static_cast<std::size_t>(inout.numel()), type, op);
    };
  }

  std::function<Status()> all_gather_call(const at::Tensor& in, const at::Tensor& out) {
    check_parts(in, out, size());
    return [group = group_, in, out] {
      return shm_all_gather(*group, in.data_ptr(), out.data_ptr(), in.nbytes());
    };
  }
  std::function<Status()> reduce_scatter_call(const at::Tensor& in, const at::Tensor& out, ReduceOp op) {
    check_parts(out, in, size());
    return [group = group_, in, out, op, type = element_type_of(in)] {
      return shm_reduce_scatter(
          *group, in.data_ptr(), out.data_ptr(), static_cast<std::size_t>(out.numel()), type, op);
    };
  }

  std::function<Status()> send_call(const at::Tensor& tensor, int to) const {
    check_tensor(tensor);
    check_peer("send", rank(), to, size());
    return [group = group_, tensor, to] { return shm_send(*group, tensor.data_ptr(), tensor.nbytes(), to); };
  }
  std::function<Status()> recv_call(const at::Tensor& tensor, int from) const {
    check_tensor(tensor);
    check_peer("recv", rank(), from, size());
    return
        [group = group_, tensor, from] { return shm_recv(*group, tensor.data_ptr(), tensor.nbytes(), from); };
  }

  std::unique_ptr<Pending> start(std::function<Status()> call) {
    return std::make_unique<ShmPending>(group_, collectives_.start(std::move(call)));
  }
  void run(const std::function<Status()>& call) { expect_ok(collectives_.run(call)); }
  void expect_ok(const Status& status) const {
    if (!status) throw_comm_error(status.error(), *group_);
  }

  std::shared_ptr<ShmGroup> group_;  // calls in flight and their waiters hold it too
  CallQueue collectives_;
  MessageQueues messages_;
};

}  // namespace

std::unique_ptr<Communicator> make_shm_communicator(std::shared_ptr<ShmRegion> region,
                                                    const ShmGroupOptions& options,
                                                    std::shared_ptr<ProgressEngine> engine) {
  return std::make_unique<ShmCommunicator>(std::move(region), options, std::move(engine));
}

}  // namespace llmtrain
