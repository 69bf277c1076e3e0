#include <functional>
#include <utility>

#include <c10/cuda/CUDAFunctions.h>
#include <fmt/format.h>

#include "llmtrain/comm/backends.hpp"
#include "llmtrain/comm/store.hpp"

#include "tests/comm/contract.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/skip.hpp"

using namespace llmtrain;
using namespace std::chrono_literals;
using llmtrain::test::check_contract;
using llmtrain::test::require;
using llmtrain::test::spawn_ranks;

namespace {

// Lets the contract, which speaks of host tensors, be kept by ranks that move device tensors.
class Staged final : public Communicator {
 public:
  explicit Staged(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}

  const std::string& name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(at::Tensor& inout, ReduceOp op) override { all_reduce_async(inout, op)->wait(); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    return staged(inout, inout, [&](at::Tensor& x, at::Tensor&) { return inner_->all_reduce_async(x, op); });
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { all_gather_async(in, out)->wait(); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    return staged(in, out, [&](at::Tensor& x, at::Tensor& y) { return inner_->all_gather_async(x, y); });
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    reduce_scatter_async(in, out, op)->wait();
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    return staged(
        in, out, [&](at::Tensor& x, at::Tensor& y) { return inner_->reduce_scatter_async(x, y, op); });
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    at::Tensor y = out.cuda();
    inner_->all_to_all(in.cuda(), y);
    out.copy_(y);
  }
  void broadcast(at::Tensor& inout, int root) override {
    at::Tensor x = inout.cuda();
    inner_->broadcast(x, root);
    inout.copy_(x);
  }
  void send(const at::Tensor& tensor, int to) override { inner_->send(tensor.cuda(), to); }
  void recv(at::Tensor& tensor, int from) override { recv_async(tensor, from)->wait(); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    return inner_->send_async(tensor.cuda(), to);
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    return staged(tensor, tensor, [&](at::Tensor& x, at::Tensor&) { return inner_->recv_async(x, from); });
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    return staged(
        out, in, [&](at::Tensor& x, at::Tensor& y) { return inner_->send_recv_async(x, to, y, from); });
  }
  void barrier() override { inner_->barrier(); }
  void cancel() override { inner_->cancel(); }

 private:
  class Back final : public Pending {
   public:
    Back(std::unique_ptr<Pending> inner, at::Tensor from, at::Tensor to)
        : inner_(std::move(inner)), from_(std::move(from)), to_(std::move(to)) {}
    void wait() override {
      inner_->wait();
      to_.copy_(from_);
    }

   private:
    std::unique_ptr<Pending> inner_;
    at::Tensor from_, to_;
  };

  template <class Verb>
  static std::unique_ptr<Pending> staged(const at::Tensor& in, const at::Tensor& out, Verb&& verb) {
    at::Tensor x = in.cuda();
    at::Tensor y = in.is_same(out) ? x : out.cuda();
    auto pending = verb(x, y);
    return std::make_unique<Back>(std::move(pending), y, out);
  }

  std::unique_ptr<Communicator> inner_;
};

int usable_ranks() {
  const int devices = c10::cuda::device_count();
  if (devices < 1) llmtrain::test::skip_executable("no GPU on this host");
  return std::min(devices, 4);
}

std::unique_ptr<Communicator> connect(const std::shared_ptr<Store>& store, int rank, int ranks) {
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(rank));
  RemoteGroupOptions options{.name = "dp", .members = {}, .rank = rank, .timeout = 30s, .lanes = ranks > 1};
  for (int member = 0; member < ranks; ++member) options.members.push_back(member);
  return make_nccl_communicator(store, options);
}

}  // namespace

TEST_CASE("communicator contract: nccl, a rank on each GPU", "[comm]") {
  const int ranks = usable_ranks();
  const auto store = make_memory_store();
  spawn_ranks(ranks, [&](int rank, const auto&) {
    Staged group(connect(store, rank, ranks));
    check_contract(group);
  });
}

TEST_CASE("nccl: a rank that never connects is named", "[comm]") {
  usable_ranks();
  RemoteGroupOptions options{.name = "dp", .members = {0, 1}, .rank = 0, .timeout = 2s};
  try {
    make_nccl_communicator(make_memory_store(), options);
    FAIL("no error");
  } catch (const CommError& error) {
    CHECK(error.missing_ranks == std::vector<int>{1});
  }
}
