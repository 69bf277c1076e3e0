#include "llmtrain/comm/call_check.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "llmtrain/core/check.hpp"

#include "tensor_checks.hpp"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 7> kOperations = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier", "message"};
enum Operation { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kBroadcast, kBarrier, kMessage };

constexpr int kMaxDims = 8;
constexpr std::size_t kPhase = 4 + kMaxDims;
// operation, detail (reduction, root or number of the message), element type, number of dimensions,
// dimensions; and the phase that the call comes from, which ranks need not share, counted from 1
using Signature = std::array<std::int64_t, kPhase + 1>;

bool same_call(const Signature& a, const Signature& b) {
  return std::equal(a.begin(), a.begin() + kPhase, b.begin());
}

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

// "Float [16, 64]"
std::string describe_tensor(const Signature& s) {
  const auto dims = std::clamp<std::int64_t>(s[3], 0, kMaxDims);
  return fmt::format("{} [{}]",
                     c10::toString(static_cast<c10::ScalarType>(s[2])),
                     fmt::join(s.begin() + 4, s.begin() + 4 + dims, ", "));
}

// " in phase \"forward\""; nothing where the rank does not say
std::string describe_phase(const Signature& s) {
  if (s[kPhase] < 1 || s[kPhase] > static_cast<std::int64_t>(kNumPhases)) return "";
  return fmt::format(" in phase \"{}\"", to_string(static_cast<Phase>(s[kPhase] - 1)));
}

std::string describe_call(const Signature& s) {
  if (s[0] == kBarrier) return "barrier";
  std::string text = fmt::format("{} of {}", kOperations[static_cast<std::size_t>(s[0])], describe_tensor(s));
  if (s[0] == kAllReduce || s[0] == kReduceScatter)
    text += fmt::format(" {}", to_string(static_cast<ReduceOp>(s[1])));
  if (s[0] == kBroadcast) text += fmt::format(" from {}", s[1]);
  return text;
}

std::string describe(const Signature& s) {
  return describe_call(s) + describe_phase(s);
}

at::Tensor to_tensor(const Signature& signature, at::Device device) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(signature.size())}, at::kLong);  // [width]
  std::copy(signature.begin(), signature.end(), tensor.mutable_data_ptr<std::int64_t>());
  return tensor.to(device);
}

Signature from_tensor(const at::Tensor& tensor) {
  const at::Tensor on_host = tensor.cpu();  // [width]
  Signature signature{};
  std::copy_n(on_host.const_data_ptr<std::int64_t>(), signature.size(), signature.begin());
  return signature;
}

// A message that goes out behind its announcement.
class AnnouncedMessage final : public Pending {
 public:
  AnnouncedMessage(std::unique_ptr<Pending> announcement, std::unique_ptr<Pending> message)
      : announcement_(std::move(announcement)), message_(std::move(message)) {}
  void wait() override {
    announcement_->wait();
    message_->wait();
  }

 private:
  std::unique_ptr<Pending> announcement_;
  std::unique_ptr<Pending> message_;
};

// A message that arrives behind its announcement.
class CheckedMessage final : public Pending {
 public:
  using Compare = std::function<void(const Signature& announced)>;
  CheckedMessage(std::unique_ptr<Pending> announcement,
                 at::Tensor announced,
                 std::unique_ptr<Pending> message,
                 Compare compare)
      : announcement_(std::move(announcement)),
        announced_(std::move(announced)),
        message_(std::move(message)),
        compare_(std::move(compare)) {}

  // The comparison comes first: a message of another size ends in an error that tells less.
  void wait() override {
    announcement_->wait();
    compare_(from_tensor(announced_));
    message_->wait();
  }

 private:
  std::unique_ptr<Pending> announcement_;
  at::Tensor announced_;
  std::unique_ptr<Pending> message_;
  Compare compare_;
};

class CheckedCommunicator final : public Communicator {
 public:
  CheckedCommunicator(std::unique_ptr<Communicator> inner,
                      std::vector<int> global_ranks,
                      at::Device device,
                      const BlackBox* black_box)
      : inner_(std::move(inner)),
        global_ranks_(std::move(global_ranks)),
        device_(device),
        black_box_(black_box),
        sent_(global_ranks_.size()),
        received_(global_ranks_.size()) {
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
  void send(const at::Tensor& tensor, int to) override {
    const auto announcement = inner_->send_async(announce(tensor, to), to);
    inner_->send(tensor, to);
    announcement->wait();  // in order: it is through when the message is
  }
  void recv(at::Tensor& tensor, int from) override { recv_async(tensor, from)->wait(); }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    auto announcement = inner_->send_async(announce(tensor, to), to);
    return std::make_unique<AnnouncedMessage>(std::move(announcement), inner_->send_async(tensor, to));
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    at::Tensor announced = to_tensor({}, device_);  // [width]
    auto announcement = inner_->recv_async(announced, from);
    return expect(std::move(announcement), announced, inner_->recv_async(tensor, from), tensor, from);
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    at::Tensor announced = to_tensor({}, device_);  // [width]
    auto announcement = inner_->send_recv_async(announce(out, to), to, announced, from);
    return expect(std::move(announcement), announced, inner_->send_recv_async(out, to, in, from), in, from);
  }
  void barrier() override {
    compare(signature_of(kBarrier, 0, nullptr));
    inner_->barrier();
  }
  void cancel() override { inner_->cancel(); }

 private:
  Signature here(Signature signature) const {
    if (black_box_ != nullptr) signature[kPhase] = static_cast<std::int64_t>(black_box_->phase.load()) + 1;
    return signature;
  }

  void compare(const Signature& call) {
    ++calls_;
    const Signature mine = here(call);
    const at::Tensor in = to_tensor(mine, device_);                  // [width]
    at::Tensor out = at::empty({size(), in.numel()}, in.options());  // [size, width]
    inner_->all_gather(in, out);
    out = out.cpu();  // [size, width]
    for (int peer = 0; peer < size(); ++peer) {
      const Signature theirs = from_tensor(out.select(0, peer));
      if (same_call(theirs, mine)) continue;
      throw CommError(
          fmt::format("ranks of group {} disagree in call #{}: rank {} calls {}, rank {} calls {}",
                      name(),
                      calls_,
                      global(rank()),
                      describe(mine),
                      global(peer),
                      describe(theirs)),
          {});
    }
  }

  at::Tensor announce(const at::Tensor& tensor, int to) {
    check_peer("send", rank(), to, size());
    const auto number = ++sent_[static_cast<std::size_t>(to)];
    return to_tensor(here(signature_of(kMessage, number, &tensor)), device_);  // [width]
  }

  std::unique_ptr<Pending> expect(std::unique_ptr<Pending> announcement,
                                  const at::Tensor& announced,
                                  std::unique_ptr<Pending> message,
                                  const at::Tensor& tensor,
                                  int from) {
    const auto number = ++received_[static_cast<std::size_t>(from)];
    const Signature expected = here(signature_of(kMessage, number, &tensor));
    auto compare = [this, expected, from](const Signature& sent) { compare_message(sent, expected, from); };
    return std::make_unique<CheckedMessage>(
        std::move(announcement), announced, std::move(message), std::move(compare));
  }

  void compare_message(const Signature& sent, const Signature& expected, int from) const {
    if (same_call(sent, expected)) return;
    throw CommError(fmt::format("message #{} of group {}: rank {} sends {}{} to rank {}, which expects {}{}",
                                expected[1],
                                name(),
                                global(from),
                                describe_tensor(sent),
                                describe_phase(sent),
                                global(rank()),
                                describe_tensor(expected),
                                describe_phase(expected)),
                    {});
  }

  int global(int member) const { return global_ranks_[static_cast<std::size_t>(member)]; }

  std::unique_ptr<Communicator> inner_;
  std::vector<int> global_ranks_;
  at::Device device_;
  const BlackBox* black_box_;
  std::int64_t calls_ = 0;
  std::vector<std::int64_t> sent_;  // messages begun, by peer
  std::vector<std::int64_t> received_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked_communicator(std::unique_ptr<Communicator> inner,
                                                        std::vector<int> global_ranks,
                                                        at::Device device,
                                                        const BlackBox* black_box) {
  return std::make_unique<CheckedCommunicator>(std::move(inner), std::move(global_ranks), device, black_box);
}

}  // namespace llmtrain
