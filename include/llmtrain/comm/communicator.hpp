#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/shm/reduce.hpp"

// How ranks exchange tensors: one ordered group of ranks, a few verbs, tensors in and out.
//
// Every verb is collective over the group (messages over two of its ranks) and must be called by
// all its ranks in the same order. A group of one is the identity, and has nobody to send to. Tensors are
// contiguous; the result is in place or in `out`. Failures throw CommError. One owner and one thread, but
// for cancel().
namespace llmtrain {

// A wait ended without its peers. what() names group, operation, sequence number and missing ranks.
class CommError : public std::runtime_error {
 public:
  CommError(const std::string& message, std::vector<int> missing)
      : std::runtime_error(message), missing_ranks(std::move(missing)) {}
  std::vector<int> missing_ranks;  // global ranks that did not arrive
};

// A collective in flight. wait() returns when its result may be read; throws CommError; call it once.
// The tensor given to the verb must stay untouched until then.
class Pending {
 public:
  virtual ~Pending() = default;
  virtual void wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const std::string& name() const = 0;  // axis: "dp", "tp", "world"
  virtual int rank() const = 0;                 // position inside this group
  virtual int size() const = 0;

  // Element-wise over ranks, in rank order, bit-equal on every rank and in every run. bf16 and fp16
  // are accumulated in fp32. Types: bf16, fp16, fp32, fp64, int64.
  virtual void all_reduce(at::Tensor& inout, ReduceOp op) = 0;
  virtual std::unique_ptr<Pending> all_reduce_async(at::Tensor& inout, ReduceOp op) = 0;
  // in [n], out [size x n]: rank r's input is out[r x n : (r + 1) x n]. `in` may be its own place in `out`.
  virtual void all_gather(const at::Tensor& in, at::Tensor& out) = 0;
  virtual std::unique_ptr<Pending> all_gather_async(const at::Tensor& in, at::Tensor& out) = 0;
  // in [size x n], out [n]: the sum of every rank's part r. `out` may be this rank's part of `in`.
  virtual void reduce_scatter(const at::Tensor& in, at::Tensor& out, ReduceOp op) = 0;
  virtual std::unique_ptr<Pending> reduce_scatter_async(const at::Tensor& in,
                                                        at::Tensor& out,
                                                        ReduceOp op) = 0;
  // in and out [size x n]: part r of `in` goes to rank r, part r of `out` came from rank r.
  virtual void all_to_all(const at::Tensor& in, at::Tensor& out) = 0;
  virtual void broadcast(at::Tensor& inout, int root) = 0;
  // Messages from one rank to another keep their order, whichever verbs send and take them; messages of
  // other pairs, of the other direction, and collectives of the group are not held up by one that waits.
  virtual void send(const at::Tensor& tensor, int to) = 0;
  virtual void recv(at::Tensor& tensor, int from) = 0;
  // Never waits for the receiver. A message in flight is lost when the communicator is destroyed.
  virtual std::unique_ptr<Pending> send_async(const at::Tensor& tensor, int to) = 0;
  // May be posted long before the message is sent.
  virtual std::unique_ptr<Pending> recv_async(at::Tensor& tensor, int from) = 0;
  // Sends `out` to one rank while `in` comes from another; all ranks of a ring may call it together.
  virtual std::unique_ptr<Pending> send_recv_async(const at::Tensor& out,
                                                   int to,
                                                   at::Tensor& in,
                                                   int from) = 0;
  virtual void barrier() = 0;
  // Ends what is in flight, from any thread; the group is broken then. Destroying it does the same.
  virtual void cancel() = 0;
};

}  // namespace llmtrain
