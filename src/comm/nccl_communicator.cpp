#include <functional>
#include <utility>

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "element_type.hpp"
#include "nccl_group.hpp"
#include "nccl_lanes.hpp"
#include "tensor_checks.hpp"

// The verbs of a communicator as calls of NCCL.
namespace llmtrain {
namespace {

ncclDataType_t nccl_type_of(const at::Tensor& tensor) {
  switch (element_type_of(tensor)) {
    case ElementType::kBf16: return ncclBfloat16;
    case ElementType::kFp16: return ncclFloat16;
    case ElementType::kFp32: return ncclFloat32;
    case ElementType::kFp64: return ncclFloat64;
    case ElementType::kInt64: return ncclInt64;
  }
  return ncclFloat32;
}

ncclRedOp_t nccl_op_of(ReduceOp op) {
  return op == ReduceOp::kSum ? ncclSum : ncclMax;
}

class NcclPending final : public Pending {
 public:
  NcclPending(std::shared_ptr<NcclGroup> group, std::shared_ptr<NcclEvent> after)
      : group_(std::move(group)), after_(std::move(after)) {}
  void wait() override { group_->wait(*after_); }

 private:
  std::shared_ptr<NcclGroup> group_;
  std::shared_ptr<NcclEvent> after_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const std::shared_ptr<Store>& store, const RemoteGroupOptions& options)
      : group_(std::make_shared<NcclGroup>(store, options)) {
    main_ = &group_->connect("all", rank(), size());
    if (options.lanes) lanes_ = connect_lanes(*group_);
  }

  const std::string& name() const override { return group_->options().name; }
  int rank() const override { return group_->options().rank; }
  int size() const override { return static_cast<int>(group_->options().members.size()); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override { all_reduce_async(inout, op)->wait(); }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    check_device(inout);
    const auto type = nccl_type_of(inout);
    return start("all_reduce", {inout}, [&] {
      return ncclAllReduce(
          inout.data_ptr(), inout.data_ptr(), count(inout), type, nccl_op_of(op), comm(), stream());
    });
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override { all_gather_async(in, out)->wait(); }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, size());
    check_device(in);
    return start("all_gather", {in, out}, [&] {
      return ncclAllGather(in.data_ptr(), out.data_ptr(), in.nbytes(), ncclUint8, comm(), stream());
    });
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    reduce_scatter_async(in, out, op)->wait();
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    check_parts(out, in, size());
    check_device(in);
    const auto type = nccl_type_of(in);
    return start("reduce_scatter", {in, out}, [&] {
      return ncclReduceScatter(
          in.data_ptr(), out.data_ptr(), count(out), type, nccl_op_of(op), comm(), stream());
    });
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    check_parts(in, out, 1);
    check_device(in);
    LLMTRAIN_CHECK(in.numel() % size() == 0, "all_to_all of {} elements over {} ranks", in.numel(), size());
    const std::size_t part = in.nbytes() / static_cast<std::size_t>(size());
    start("all_to_all", {in, out}, [&] {
      ncclGroupStart();
      for (int peer = 0; peer < size(); ++peer) {
        const std::size_t place = static_cast<std::size_t>(peer) * part;
        ncclSend(static_cast<const char*>(in.data_ptr()) + place, part, ncclUint8, peer, comm(), stream());
        ncclRecv(static_cast<char*>(out.data_ptr()) + place, part, ncclUint8, peer, comm(), stream());
      }
      return ncclGroupEnd();
    })->wait();
  }
  void broadcast(at::Tensor& inout, int root) override {
    check_device(inout);
    LLMTRAIN_CHECK(root >= 0 && root < size(), "broadcast from rank {} of {}", root, size());
    start("broadcast", {inout}, [&] {
      return ncclBroadcast(
          inout.data_ptr(), inout.data_ptr(), inout.nbytes(), ncclUint8, root, comm(), stream());
    })->wait();
  }
  void send(const at::Tensor& tensor, int to) override { send_async(tensor, to)->wait(); }
  void recv(at::Tensor& tensor, int from) override { recv_async(tensor, from)->wait(); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    check_device(tensor);
    check_peer("send", rank(), to, size());
    NcclChannel* lane = is_next(to) ? lanes_.to_next : is_previous(to) ? lanes_.to_previous : nullptr;
    return message("send", tensor, lane, to, 1, [&](NcclChannel& channel, int peer) {
      return ncclSend(tensor.data_ptr(), tensor.nbytes(), ncclUint8, peer, channel.comm(), channel.stream());
    });
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    check_device(tensor);
    check_peer("recv", rank(), from, size());
    NcclChannel* lane = is_next(from) ? lanes_.from_next : is_previous(from) ? lanes_.from_previous : nullptr;
    return message("recv", tensor, lane, from, 0, [&](NcclChannel& channel, int peer) {
      return ncclRecv(tensor.data_ptr(), tensor.nbytes(), ncclUint8, peer, channel.comm(), channel.stream());
    });
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    check_device(out);
    check_device(in);
    check_peer("send", rank(), to, size());
    check_peer("recv", rank(), from, size());
    return start("send_recv", {out, in}, [&] {
      ncclGroupStart();
      ncclSend(out.data_ptr(), out.nbytes(), ncclUint8, to, comm(), stream());
      ncclRecv(in.data_ptr(), in.nbytes(), ncclUint8, from, comm(), stream());
      return ncclGroupEnd();
    });
  }
  void barrier() override {
    at::Tensor one = at::zeros({1}, at::device(at::kCUDA).dtype(at::kFloat));  // [1]
    group_->wait_on_host(*enqueue("barrier", {one}, [&] {
      return ncclAllReduce(one.data_ptr(), one.data_ptr(), 1, ncclFloat32, ncclSum, comm(), stream());
    }));
  }
  void cancel() override { group_->cancel(); }

 private:
  static void check_device(const at::Tensor& tensor) {
    check_tensor(tensor);
    LLMTRAIN_CHECK(tensor.is_cuda(), "NCCL moves tensors of GPUs, not of {}", tensor.device().str());
  }
  static std::size_t count(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }
  ncclComm_t comm() const { return main_->comm(); }
  cudaStream_t stream() const { return main_->stream(); }
  bool is_next(int peer) const { return peer == (rank() + 1) % size(); }
  bool is_previous(int peer) const { return peer == (rank() + size() - 1) % size(); }

  std::shared_ptr<NcclEvent> enqueue(const char* verb,
                                     const std::vector<at::Tensor>& tensors,
                                     const std::function<ncclResult_t()>& calls) {
    return group_->enqueue(*main_, fmt::format("{} #{}", verb, ++calls_), tensors, calls);
  }
  std::unique_ptr<Pending> start(const char* verb,
                                 const std::vector<at::Tensor>& tensors,
                                 const std::function<ncclResult_t()>& calls) {
    return std::make_unique<NcclPending>(group_, enqueue(verb, tensors, calls));
  }

  // On its lane the peer is number `number`; in the group it is `peer`.
  std::unique_ptr<Pending> message(const char* verb,
                                   const at::Tensor& tensor,
                                   NcclChannel* lane,
                                   int peer,
                                   int number,
                                   const std::function<ncclResult_t(NcclChannel&, int)>& call) {
    NcclChannel& channel = lane != nullptr ? *lane : *main_;
    const std::string subject = fmt::format(
        "{} #{} with rank {}", verb, ++calls_, group_->options().members[static_cast<std::size_t>(peer)]);
    return std::make_unique<NcclPending>(group_, group_->enqueue(channel, subject, {tensor}, [&] {
      return call(channel, lane != nullptr ? number : peer);
    }));
  }

  std::shared_ptr<NcclGroup> group_;  // what is in flight holds it too
  NcclChannel* main_ = nullptr;
  NcclLanes lanes_;
  std::uint64_t calls_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(const std::shared_ptr<Store>& store,
                                                     const RemoteGroupOptions& options) {
  return std::make_unique<NcclCommunicator>(store, options);
}

}  // namespace llmtrain
