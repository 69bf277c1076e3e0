#include <utility>

#include <ATen/ops/copy.h>

#include "llmtrain/comm/backends.hpp"

#include "tensor_checks.hpp"

namespace llmtrain {
namespace {

class Done final : public Pending {
 public:
  void wait() override {}
};

class SoloCommunicator final : public Communicator {
 public:
  explicit SoloCommunicator(std::string name) : name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  int rank() const override { return 0; }
  int size() const override { return 1; }

  void all_reduce(at::Tensor& inout, ReduceOp) override { check_tensor(inout); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp) override {
    check_tensor(inout);
    return std::make_unique<Done>();
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { copy(in, out); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    copy(in, out);
    return std::make_unique<Done>();
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp) override { copy(in, out); }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp) override {
    copy(in, out);
    return std::make_unique<Done>();
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override { copy(in, out); }
  void broadcast(at::Tensor& inout, int root) override {
    check_tensor(inout);
    LLMTRAIN_CHECK(root == 0, "broadcast from rank {} of 1", root);
  }
  void send(const at::Tensor&, int to) override { LLMTRAIN_CHECK(false, "send to rank {} of 1", to); }
  void recv(at::Tensor&, int from) override { LLMTRAIN_CHECK(false, "recv from rank {} of 1", from); }
  std::unique_ptr<Pending> send_async(const at::Tensor&, int to) override {
    LLMTRAIN_CHECK(false, "send to rank {} of 1", to);
    return nullptr;
  }
  std::unique_ptr<Pending> recv_async(at::Tensor&, int from) override {
    LLMTRAIN_CHECK(false, "recv from rank {} of 1", from);
    return nullptr;
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    LLMTRAIN_CHECK(to == 0 && from == 0, "send to rank {} and recv from rank {} of 1", to, from);
    copy(out, in);
    return std::make_unique<Done>();
  }
  void barrier() override {}
  void cancel() override {}

 private:
  static void copy(const at::Tensor& in, at::Tensor& out) {
    check_parts(in, out, 1);
    if (in.data_ptr() != out.data_ptr()) out.view(-1).copy_(in.view(-1));
  }

  std::string name_;
};

}  // namespace

std::unique_ptr<Communicator> make_solo_communicator(std::string name) {
  return std::make_unique<SoloCommunicator>(std::move(name));
}

}  // namespace llmtrain
