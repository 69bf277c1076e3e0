#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/spec/job_spec.hpp"
#include "llmtrain/topology/mesh.hpp"

// The one placement table: every parameter of a model, and how a mesh cuts it.
//
// Init, optimizer groups, gradient norm, checkpoint, HF mapping, memory estimate and the printed
// layout read this list and nothing else. A parameter's name is the same on every mesh.
namespace llmtrain {

enum class InitRule { kNormal, kOnes, kZeros };

// A part of the model that is computed, reduced and sharded as one: embedding, block 0.., head.
using SegmentIndex = int;  // 0 = embedding, 1..num_layers = blocks, num_layers + 1 = final norm and head

struct ParamSpec {
  std::string name;                 // HF llama names, e.g. model.layers.7.self_attn.q_proj.weight
  std::vector<std::int64_t> shape;  // global, [out, in] for matrices
  InitRule init = InitRule::kNormal;
  double init_std = 0.0;         // kNormal: standard deviation
  std::optional<int> cut_dim{};  // dimension cut along `cut_axis`; absent = replicated
  std::int64_t cut_unit = 1;     // indices of cut_dim that stay together: the width of a head
  Axis cut_axis = Axis::kTensor;
  bool partial_grad = false;  // ranks of the axis that hold the same values each see a part of their gradient
  bool grad_in_forward = false;  // the loss writes its gradient at once
  bool decay = false;            // takes weight decay
  std::string tied_with{};       // name of the parameter that holds the values; empty = own storage
  SegmentIndex segment = 0;
  bool is_copy = false;  // of values that another pipeline stage holds, counts and writes (stage_table)

  std::int64_t numel() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : shape) n *= extent;
    return n;
  }
};

struct TableOptions {
  bool decay_embeddings = false;
  bool shard_sequence = false;  // ranks of the tensor axis see a part of the tokens between regions
};

// In segment order; inside a segment query, key and value (and gate, up) are neighbours, so that a flat
// buffer holds them as one fused matrix. `model` must be resolved. Tied parameters are listed with
// `tied_with` set and own no storage.
std::vector<ParamSpec> parameter_table(const ModelSpec& model, const TableOptions& options = {});

// Parameters that own storage, summed: the model's size.
std::int64_t parameter_count(const std::vector<ParamSpec>& table);

}  // namespace llmtrain
