#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "llmtrain/spec/job_spec.hpp"

// Turns main gradients into new weights, on whatever part of the parameters this rank owns.
//
// It sees one-dimensional slices of flat buffers and knows neither shapes nor ranks nor the step number: the
// learning rate comes from outside, and its own count is the number of updates that took place. A step that
// the run skips does not call step(), so that moments and count stay as they were. An update is one pass
// over memory and gives the same bits for any number of threads and on any CPU.
namespace llmtrain {

// A contiguous part of one parameter: [n] each.
struct OptimizerSlice {
  std::string name;   // of the parameter; unique in a list
  at::Tensor weight;  // what the model computes with: the type of master, or bf16 or fp16 beside fp32 masters
  at::Tensor master;  // fp32 or fp64; the same memory as weight when the types agree
  at::Tensor grad;    // type of master; read, never written
  bool decay = false;  // takes weight decay

  // Where the model computes on a device and the update takes place on the host: `weight` and `grad` are host
  // copies of these, which step() brings in and hands back.
  at::Tensor device_weight{};
  at::Tensor device_grad{};
};

// The same slice with weight and gradient copied to host memory from which, and to which, a device can copy
// without waiting for the pages, and the master with the weight when it is the same; the slice itself when it
// is on the host already.
OptimizerSlice on_host(OptimizerSlice slice);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One update with the gradients grad * grad_scale; writes master and weight of every slice.
  void step(double lr, double grad_scale);

  // Updates that took place; part of a checkpoint (AdamW corrects its bias by it).
  std::int64_t count() const { return count_; }
  void set_count(std::int64_t count);

  // States that every slice has, in the master's type: exp_avg and exp_avg_sq, or momentum, or none.
  // state() is a view of the live values; writing into it is how a checkpoint is loaded.
  std::vector<std::string> state_names() const;
  at::Tensor state(std::size_t slice, const std::string& name) const;
  std::int64_t state_bytes() const;  // as allocated: every slice of every state is padded to 64 bytes

  const std::vector<OptimizerSlice>& slices() const { return slices_; }

 protected:
  // Throws when a slice breaks what OptimizerSlice says.
  Optimizer(std::vector<OptimizerSlice> slices, const std::vector<std::string>& state_names);

  virtual void update(double lr, double grad_scale) = 0;  // count() includes this update; host memory only

  // Calls part(slice, begin, end) over all elements of all slices, on all threads, each element once.
  using Part = std::function<void(std::size_t slice, std::int64_t begin, std::int64_t end)>;
  void for_each_part(const Part& part) const;

  const at::Tensor& state(std::size_t slice, std::size_t state) const { return states_[state].slices[slice]; }

 private:
  struct State {
    std::string name;
    at::Tensor buffer;
    std::vector<at::Tensor> slices;
  };

  std::vector<OptimizerSlice> slices_;
  std::vector<std::int64_t> ends_;  // running sum of the slices' sizes
  std::vector<State> states_;
  std::int64_t count_ = 0;
};

// The optimizer that a job asks for.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerSpec& spec, std::vector<OptimizerSlice> slices);

}  // namespace llmtrain
