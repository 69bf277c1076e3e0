#include "llmtrain/comm/call_check.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 6> kOperations = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier"};
enum Operation { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kBarrier };

constexpr int kMaxDims = 8;
// operation, detail (reduction or root), element type, number of dimensions, dimensions
using Signature = std::array<std::int64_t, 4 + kMaxDims>;

Signature signature_of(Operation operation, std::int64_t detail, const at::Tensor* tensor) {
  Signature signature{};
  signature[0] = operation;
  signature[1] = detail;
  if (tensor == nullptr) return signature;
  signature[2] = static_cast<std::int64_t>(tensor->scalar_type());
  signature[3] = tensor->dim();
  for (int d = 0; d < std::min<int>(static_cast<int>(tensor->dim()), kMaxDims); ++d)
    signature[static_cast<std::size_t>(4 + d)] = tensor->size(d);
  return signature;
}

std::string describe(const Signature& s) {
  if (s[0] == kBarrier) return "barrier";
  const auto dims = std::clamp<std::int64_t>(s[3], 0, kMaxDims);
  std::string text = fmt::format("{} of {} [{}]",
                                 kOperations[static_cast<std::size_t>(s[0])],
                                 c10::toString(static_cast<c10::ScalarType>(s[2])),
                                 fmt::join(s.begin() + 4, s.begin() + 4 + dims, ", "));
  if (s[0] == kAllReduce || s[0] == kReduceScatter)
    text += fmt::format(" {}", to_string(static_cast<ReduceOp>(s[1])));
  if (s[0] == kBroadcast) text += fmt::format(" from {}", s[1]);
  return text;
}

class CheckedCommunicator final : public Communicator {
 public:
  CheckedCommunicator(std::unique_ptr<Communicator> inner, std::vector<int> global_ranks)
      : inner_(std::move(inner)), global_ranks_(std::move(global_ranks)) {
    LLMTRAIN_CHECK(static_cast<int>(global_ranks_.size()) == size(),
                   "{} names for {} ranks",
                   global_ranks_.size(),
                   size());
  }

  const std::string& name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override {
    compare(signature_of(kAllReduce, static_cast<int>(op), &inout));
    inner_->all_reduce(inout, op);
  }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    compare(signature_of(kAllReduce, static_cast<int>(op), &inout));
    return inner_->all_reduce_async(inout, op);
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override {
    compare(signature_of(kAllGather, 0, &in));
    inner_->all_gather(in, out);
  }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    compare(signature_of(kAllGather, 0, &in));
    return inner_->all_gather_async(in, out);
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    compare(signature_of(kReduceScatter, static_cast<int>(op), &in));
    inner_->reduce_scatter(in, out, op);
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    compare(signature_of(kReduceScatter, static_cast<int>(op), &in));
    return inner_->reduce_scatter_async(in, out, op);
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    compare(signature_of(kAllToAll, 0, &in));
    inner_->all_to_all(in, out);
  }
  void broadcast(at::Tensor& inout, int root) override {
    compare(signature_of(kBroadcast, root, &inout));
    inner_->broadcast(inout, root);
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
  void barrier() override {
    compare(signature_of(kBarrier, 0, nullptr));
    inner_->barrier();
  }
  void cancel() override { inner_->cancel(); }

 private:
  void compare(const Signature& mine) {
    const auto width = static_cast<std::int64_t>(mine.size());
    const at::Tensor in = at::empty({width}, at::kLong);      // [width]
    at::Tensor out = at::empty({size() * width}, at::kLong);  // [size x width]
    std::copy(mine.begin(), mine.end(), in.mutable_data_ptr<std::int64_t>());
    inner_->all_gather(in, out);
    const std::int64_t* all = out.const_data_ptr<std::int64_t>();
    for (int peer = 0; peer < size(); ++peer) {
      Signature theirs{};
      std::copy_n(all + peer * width, width, theirs.begin());
      if (theirs == mine) continue;
      throw CommError(fmt::format("ranks of group {} disagree: rank {} calls {}, rank {} calls {}",
                                  name(),
                                  global(rank()),
                                  describe(mine),
                                  global(peer),
                                  describe(theirs)),
                      {});
    }
  }
  int global(int member) const { return global_ranks_[static_cast<std::size_t>(member)]; }

  std::unique_ptr<Communicator> inner_;
  std::vector<int> global_ranks_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner,
                                                        std::vector<int> global_ranks) {
  return std::make_unique<CheckedCommunicator>(std::move(inner), std::move(global_ranks));
}

}  // namespace llmtrain
