#include "llmtrain/comm/trace.hpp"

#include <algorithm>
#include <chrono>

#include "llmtrain/monitor/black_box.hpp"

namespace llmtrain {
namespace {

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

template <std::size_t N>
void store_name(std::array<char, N>& to, std::string_view from) {
  to.fill('\0');
  std::copy_n(from.begin(), std::min(from.size(), N - 1), to.begin());
}

}  // namespace

std::vector<CommTrace::Total> CommTrace::totals() const {
  std::vector<Total> list;
  for (const auto& [key, total] : totals_) list.push_back(total);
  return list;
}

double CommTrace::exposed_ms() const {
  double sum = 0;
  for (const auto& [key, total] : totals_) sum += total.exposed_ms;
  return sum;
}

CommTrace::Call CommTrace::begin(const std::string& axis, std::string_view op, std::int64_t bytes) {
  Total& total = totals_[{axis, std::string(op)}];
  if (total.count == 0) {
    total.axis = axis;
    total.op = op;
  }
  ++total.count;
  total.bytes += bytes;
  const std::uint64_t number = ++calls_;
  const std::uint64_t sequence = ++sequences_[axis];
  if (black_box_ != nullptr) {
    CollectiveRecord& record = black_box_->ring[(number - 1) % BlackBox::kRingSize];
    store_name(record.group, axis);
    store_name(record.op, op);
    record.sequence.store(sequence, std::memory_order_relaxed);
    record.bytes.store(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
    record.finished_ns.store(0, std::memory_order_relaxed);
    record.started_ns.store(now_ns(), std::memory_order_relaxed);
    black_box_->num_collectives.store(number, std::memory_order_release);
  }
  return {&total, number, sequence, static_cast<std::uint64_t>(bytes)};
}

void CommTrace::add_exposed(const Call& call, std::int64_t ns) {
  call.total->exposed_ms += static_cast<double>(ns) * 1e-6;
  if (black_box_ != nullptr) black_box_->add_stood(ns);
}

void CommTrace::stand_in(const Call& call) {
  if (black_box_ == nullptr) return;
  CollectiveRecord& record = black_box_->standing;
  store_name(record.group, call.total->axis);
  store_name(record.op, call.total->op);
  record.sequence.store(call.sequence, std::memory_order_relaxed);
  record.bytes.store(call.bytes, std::memory_order_relaxed);
  black_box_->standing_number.store(call.number, std::memory_order_release);
}

void CommTrace::finish(const Call& call) {
  if (black_box_ == nullptr) return;
  black_box_->standing_number.store(0, std::memory_order_relaxed);
  if (calls_ - call.number >= BlackBox::kRingSize) return;  // overwritten by newer calls
  CollectiveRecord& record = black_box_->ring[(call.number - 1) % BlackBox::kRingSize];
  record.finished_ns.store(now_ns(), std::memory_order_relaxed);
}

namespace {

class TracedPending final : public Pending {
 public:
  TracedPending(std::unique_ptr<Pending> inner, std::shared_ptr<CommTrace> trace, CommTrace::Call call)
      : inner_(std::move(inner)), trace_(std::move(trace)), call_(call) {}
  void wait() override {
    const std::int64_t start = now_ns();
    trace_->stand_in(call_);
    inner_->wait();
    trace_->add_exposed(call_, now_ns() - start);
    trace_->finish(call_);
  }

 private:
  std::unique_ptr<Pending> inner_;
  std::shared_ptr<CommTrace> trace_;
  CommTrace::Call call_;
};

class TracedCommunicator final : public Communicator {
 public:
  TracedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<CommTrace> trace)
      : inner_(std::move(inner)), trace_(std::move(trace)) {}

  const std::string& name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  void all_reduce(at::Tensor& inout, ReduceOp op) override {
    traced("all_reduce", inout, [&] { inner_->all_reduce(inout, op); });
  }
  std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) override {
    return traced_async("all_reduce", inout, [&] { return inner_->all_reduce_async(inout, op); });
  }
  void all_gather(const at::Tensor& in, at::Tensor& out) override {
    traced("all_gather", in, [&] { inner_->all_gather(in, out); });
  }
  std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) override {
    return traced_async("all_gather", in, [&] { return inner_->all_gather_async(in, out); });
  }
  void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    traced("reduce_scatter", in, [&] { inner_->reduce_scatter(in, out, op); });
  }
  std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in, at::Tensor& out, ReduceOp op) override {
    return traced_async("reduce_scatter", in, [&] { return inner_->reduce_scatter_async(in, out, op); });
  }
  void all_to_all(const at::Tensor& in, at::Tensor& out) override {
    traced("all_to_all", in, [&] { inner_->all_to_all(in, out); });
  }
  void broadcast(at::Tensor& inout, int root) override {
    traced("broadcast", inout, [&] { inner_->broadcast(inout, root); });
  }
  void send(const at::Tensor& tensor, int to) override {
    traced("send", tensor, [&] { inner_->send(tensor, to); });
  }
  void recv(at::Tensor& tensor, int from) override {
    traced("recv", at::Tensor(), [&] { inner_->recv(tensor, from); });
  }
  std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) override {
    return traced_async("send", tensor, [&] { return inner_->send_async(tensor, to); });
  }
  std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) override {
    return traced_async("recv", at::Tensor(), [&] { return inner_->recv_async(tensor, from); });
  }
  std::unique_ptr<Pending> send_recv_async(const at::Tensor& out, int to, at::Tensor& in, int from) override {
    const CommTrace::Call call = trace_->begin(name(), "send_recv", bytes(out));
    return std::make_unique<TracedPending>(inner_->send_recv_async(out, to, in, from), trace_, call);
  }
  void barrier() override {
    traced("barrier", at::Tensor(), [&] { inner_->barrier(); });
  }
  void cancel() override { inner_->cancel(); }

 private:
  static std::int64_t bytes(const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  }

  // A call that throws stays unfinished in the black box: that is where the rank hung.
  template <class Body>
  void traced(std::string_view op, const at::Tensor& payload, Body&& body) {
    const CommTrace::Call call = trace_->begin(name(), op, bytes(payload));
    const std::int64_t start = now_ns();
    trace_->stand_in(call);
    body();
    trace_->add_exposed(call, now_ns() - start);
    trace_->finish(call);
  }

  // The wait alone is exposed.
  template <class Body>
  std::unique_ptr<Pending> traced_async(std::string_view op, const at::Tensor& payload, Body&& body) {
    const CommTrace::Call call = trace_->begin(name(), op, bytes(payload));
    return std::make_unique<TracedPending>(body(), trace_, call);
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<CommTrace> trace_;
};

}  // namespace

std::unique_ptr<Communicator> make_traced_communicator(std::unique_ptr<Communicator> inner,
                                                       std::shared_ptr<CommTrace> trace) {
  return std::make_unique<TracedCommunicator>(std::move(inner), std::move(trace));
}

}  // namespace llmtrain
