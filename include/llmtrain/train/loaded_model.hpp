#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/data/tokenizer.hpp"
#include "llmtrain/model/transformer.hpp"
#include "llmtrain/parallel/flat_parameters.hpp"
#include "llmtrain/spec/job_spec.hpp"

// A model out of a checkpoint, ready to be asked: weights only, whole, in this process.
namespace llmtrain {

struct LoadedModel {
  JobSpec spec;      // the one it was trained with
  TrainState state;  // where training stood
  std::unique_ptr<FlatParameters> parameters;
  std::unique_ptr<Transformer> model;
};

// Every block that is read is checked against the manifest. Throws ErrorException.
LoadedModel load_model(const std::string& step_dir);

// `path`, or the tokenizer that travels in the checkpoint when `path` is empty. Throws ErrorException.
std::shared_ptr<const Tokenizer> tokenizer_for(const LoadedModel& model,
                                               const std::string& step_dir,
                                               const std::string& path);

}  // namespace llmtrain
