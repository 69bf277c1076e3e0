#include <exception>
#include <functional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/core/check.hpp"
#include "llmtrain/shm/call_queue.hpp"

#include "tensor_checks.hpp"

// Sums and gathers in two levels. Rank r of the group is rank r % local of host r / local.
//   n elements   l ranks of a host   h hosts
namespace llmtrain {
namespace {

// Below this size the network waits longer for its first byte than for all of them.
constexpr std::int64_t kOnePartBytes = 8 * 1024;

bool is_half(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kBFloat16 || tensor.scalar_type() == at::kHalf;
}

struct Levels {
  std::unique_ptr<Communicator> local;
  std::unique_ptr<Communicator> across;
  std::unique_ptr<Communicator> all;

  void all_reduce(const at::Tensor& inout, ReduceOp op) const {
    if (is_half(inout)) {  // rounded once, at the end
      const at::Tensor wide = inout.to(at::kFloat);
      all_reduce(wide, op);
      inout.copy_(wide);
      return;
    }
    at::Tensor flat = inout.view(-1);  // [n]
    if (flat.numel() * flat.element_size() <= kOnePartBytes) {
      local->all_reduce(flat, op);
      across->all_reduce(flat, op);
      return;
    }
    const std::int64_t n = flat.numel();
    const std::int64_t share = (n + local->size() - 1) / local->size();
    at::Tensor padded = flat;  // [l x share]
    if (share * local->size() != n) {
      padded = at::zeros({share * local->size()}, flat.options());
      padded.narrow(0, 0, n).copy_(flat);
    }
    at::Tensor part = padded.narrow(0, share * local->rank(), share);  // [share]
    local->reduce_scatter(padded, part, op);
    across->all_reduce(part, op);
    local->all_gather(part, padded);
    if (padded.data_ptr() != flat.data_ptr()) flat.copy_(padded.narrow(0, 0, n));
  }

  void reduce_scatter(const at::Tensor& in, const at::Tensor& out, ReduceOp op) const {
    if (is_half(in)) {
      const at::Tensor wide = at::empty(out.sizes(), out.options().dtype(at::kFloat));
      reduce_scatter(in.to(at::kFloat), wide, op);
      out.copy_(wide);
      return;
    }
    const std::int64_t n = out.numel();
    // By position inside the host first: that is the order in which its ranks share the work.
    const at::Tensor by_position =
        in.view({across->size(), local->size(), n}).transpose(0, 1).contiguous();  // [l, h, n]
    at::Tensor of_host = at::empty({across->size(), n}, in.options());             // [h, n]
    local->reduce_scatter(by_position, of_host, op);
    at::Tensor own = out.view(-1);  // [n]
    across->reduce_scatter(of_host, own, op);
  }

  void all_gather(const at::Tensor& in, const at::Tensor& out) const {
    const std::int64_t n = in.numel();
    at::Tensor column = at::empty({across->size(), n}, in.options());  // [h, n]
    across->all_gather(in, column);
    at::Tensor by_position = at::empty({local->size(), across->size(), n}, in.options());  // [l, h, n]
    local->all_gather(column, by_position);
    out.view({across->size(), local->size(), n}).copy_(by_position.transpose(0, 1));  // [h, l, n]
  }
};

// A call that ran on another thread, with what it threw.
class HierarchicalCall final : public Pending {
 public:
  HierarchicalCall(std::shared_ptr<ProgressEngine::Ticket> ticket, std::shared_ptr<std::exception_ptr> thrown)
      : ticket_(std::move(ticket)), thrown_(std::move(thrown)) {}
  void wait() override {
    const Status status = ticket_->wait();
    if (*thrown_ != nullptr) std::rethrow_exception(*thrown_);
    if (!status) throw CommError(to_string(status.error()), {});
  }

 private:
  std::shared_ptr<ProgressEngine::Ticket> ticket_;
  std::shared_ptr<std::exception_ptr> thrown_;
};

class BothPending final : public Pending {
 public:
  BothPending(std::unique_ptr<Pending> first, std::unique_ptr<Pending> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void wait() override {
    first_->wait();
    second_->wait();
  }

 private:
  std::unique_ptr<Pending> first_;
  std::unique_ptr<Pending> second_;
};

class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(Levels levels, std::shared_ptr<ProgressEngine> engine)
      : levels_(std::make_shared<Levels>(std::move(levels))), queue_(std::move(engine)) {
    LLMTRAIN_CHECK(all().size() == levels_->local->size() * levels_->across->size() &&
                       all().rank() == host() * levels_->local->size() + levels_->local->rank(),
                   "rank {} of {} is {} of {} on host {} of {}",
                   rank(),
                   size(),
                   levels_->local->rank(),
                   levels_->local->size(),
                   host(),
                   levels_->across->size());
  }
  ~HierarchicalCommunicator() override {
    if (queue_.busy()) cancel();
  }

  const std::string& name() const override { return all().name(); }
  int rank() const override { return all().rank(); }
  int size() const override { return all().size(); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override { all_reduce_async(inout, op)->wait(); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    check_tensor(inout);
    return start([levels = levels_, inout, op] { levels->all_reduce(inout, op); });
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { all_gather_async(in, out)->wait(); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, size());
    return start([levels = levels_, in, out] { levels->all_gather(in, out); });
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    reduce_scatter_async(in, out, op)->wait();
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    check_parts(out, in, size());
    return start([levels = levels_, in, out, op] { levels->reduce_scatter(in, out, op); });
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override { all().all_to_all(in, out); }
  void broadcast(at::Tensor& inout, int root) override { all().broadcast(inout, root); }
  void send(const at::Tensor& tensor, int to) override {
    check_peer("send", rank(), to, size());
    on_way_to(to).send(tensor, position(to));
  }
  void recv(at::Tensor& tensor, int from) override {
    check_peer("recv", rank(), from, size());
    on_way_to(from).recv(tensor, position(from));
  }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    check_peer("send", rank(), to, size());
    return on_way_to(to).send_async(tensor, position(to));
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    check_peer("recv", rank(), from, size());
    return on_way_to(from).recv_async(tensor, position(from));
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    auto receiving = recv_async(in, from);
    return std::make_unique<BothPending>(std::move(receiving), send_async(out, to));
  }
  void barrier() override { all().barrier(); }
  void cancel() override {
    for (Communicator* level : {levels_->local.get(), levels_->across.get(), levels_->all.get()})
      level->cancel();
  }

 private:
  Communicator& all() const { return *levels_->all; }
  int host() const { return levels_->across->rank(); }
  bool here(int member) const { return member / levels_->local->size() == host(); }
  // Messages between ranks of a host stay inside it.
  Communicator& on_way_to(int member) const { return here(member) ? *levels_->local : all(); }
  int position(int member) const { return here(member) ? member % levels_->local->size() : member; }

  // Always on the engine: the levels' own calls are finished within one of ours, whoever makes them.
  std::unique_ptr<Pending> start(std::function<void()> call) {
    auto thrown = std::make_shared<std::exception_ptr>();
    auto ticket = queue_.start([call = std::move(call), thrown]() -> Status {
      try {
        call();
      } catch (const CommError&) {
        *thrown = std::current_exception();
      }
      return ok_status();
    });
    return std::make_unique<HierarchicalCall>(std::move(ticket), std::move(thrown));
  }

  std::shared_ptr<Levels> levels_;  // calls in flight hold it too
  CallQueue queue_;
};

}  // namespace

std::unique_ptr<Communicator> make_hierarchical_communicator(std::unique_ptr<Communicator> local,
                                                             std::unique_ptr<Communicator> across,
                                                             std::unique_ptr<Communicator> all,
                                                             std::shared_ptr<ProgressEngine> engine) {
  return std::make_unique<HierarchicalCommunicator>(
      Levels{std::move(local), std::move(across), std::move(all)}, std::move(engine));
}

}  // namespace llmtrain
