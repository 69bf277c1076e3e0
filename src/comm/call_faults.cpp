#include "llmtrain/comm/call_faults.hpp"

#include <utility>

#include <ATen/ops/zeros.h>

namespace llmtrain {
namespace {

using Kind = CallFaults::Kind;

class LeftOut final : public Pending {
 public:
  void wait() override {}
};

// Keeps what a call was made with, which the caller never had.
class Misshapen final : public Pending {
 public:
  Misshapen(std::unique_ptr<Pending> call, at::Tensor in, at::Tensor out)
      : in_(std::move(in)), out_(std::move(out)), call_(std::move(call)) {}
  void wait() override { call_->wait(); }

 private:
  at::Tensor in_;
  at::Tensor out_;
  std::unique_ptr<Pending> call_;
};

class ErringCommunicator final : public Communicator {
 public:
  ErringCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<CallFaults> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  const std::string& name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override { all_reduce_async(inout, op)->wait(); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    const Kind kind = faults_->take();
    if (kind == Kind::kSkip) return std::make_unique<LeftOut>();
    if (kind == Kind::kNone) return inner_->all_reduce_async(inout, op);
    at::Tensor other = longer(inout, 1);
    auto call = inner_->all_reduce_async(other, op);
    return std::make_unique<Misshapen>(std::move(call), other, other);
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { all_gather_async(in, out)->wait(); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    const Kind kind = faults_->take();
    if (kind == Kind::kSkip) return std::make_unique<LeftOut>();
    if (kind == Kind::kNone) return inner_->all_gather_async(in, out);
    const at::Tensor other_in = longer(in, 1);
    at::Tensor other_out = longer(out, size());
    auto call = inner_->all_gather_async(other_in, other_out);
    return std::make_unique<Misshapen>(std::move(call), other_in, other_out);
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    reduce_scatter_async(in, out, op)->wait();
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    const Kind kind = faults_->take();
    if (kind == Kind::kSkip) return std::make_unique<LeftOut>();
    if (kind == Kind::kNone) return inner_->reduce_scatter_async(in, out, op);
    const at::Tensor other_in = longer(in, size());
    at::Tensor other_out = longer(out, 1);
    auto call = inner_->reduce_scatter_async(other_in, other_out, op);
    return std::make_unique<Misshapen>(std::move(call), other_in, other_out);
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    const Kind kind = faults_->take();
    if (kind == Kind::kSkip) return;
    if (kind == Kind::kNone) return inner_->all_to_all(in, out);
    at::Tensor other = longer(out, size());
    inner_->all_to_all(longer(in, size()), other);
  }
  void broadcast(at::Tensor& inout, int root) override {
    const Kind kind = faults_->take();
    if (kind == Kind::kSkip) return;
    if (kind == Kind::kNone) return inner_->broadcast(inout, root);
    at::Tensor other = longer(inout, 1);
    inner_->broadcast(other, root);
  }
  void barrier() override {
    if (faults_->take() != Kind::kSkip) inner_->barrier();
  }

  void send(const at::Tensor& tensor, int to) override { inner_->send(tensor, to); }
  void recv(at::Tensor& tensor, int from) override { inner_->recv(tensor, from); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    return inner_->send_async(tensor, to);
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    return inner_->recv_async(tensor, from);
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    return inner_->send_recv_async(out, to, in, from);
  }
  void cancel() override { inner_->cancel(); }

 private:
  // Flat, and so many elements more.
  static at::Tensor longer(const at::Tensor& tensor, std::int64_t more) {
    return at::zeros({tensor.numel() + more}, tensor.options());
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<CallFaults> faults_;
};

}  // namespace

std::unique_ptr<Communicator> make_erring_communicator(std::unique_ptr<Communicator> inner,
                                                       std::shared_ptr<CallFaults> faults) {
  return std::make_unique<ErringCommunicator>(std::move(inner), std::move(faults));
}

}  // namespace llmtrain
