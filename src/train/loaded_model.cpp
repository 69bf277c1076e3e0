#include "llmtrain/train/loaded_model.hpp"

#include <span>
#include <vector>

#include <fmt/format.h>

#include "llmtrain/checkpoint/reader.hpp"
#include "llmtrain/core/filesystem.hpp"
#include "llmtrain/job/load_job.hpp"
#include "llmtrain/placement/parameter_table.hpp"
#include "llmtrain/train/error.hpp"

namespace llmtrain {

LoadedModel load_model(const std::string& step_dir) {
  const auto files = make_posix_filesystem();
  CheckpointReader reader = value_or_throw(CheckpointReader::open(*files, step_dir));
  LoadedModel loaded;
  loaded.state = reader.state();
  loaded.spec = value_or_throw(parse_resolved(loaded.state.spec_yaml, step_dir + "/manifest.json"));
  loaded.parameters =
      std::make_unique<FlatParameters>(parameter_table(loaded.spec.model), loaded.spec.precision.compute);
  for (SegmentIndex s = 0; s < loaded.parameters->num_segments(); ++s)
    for (const ParamSlice& slice : loaded.parameters->segment(s).slices)
      value_or_throw(reader.read(slice.spec->name,
                                 dtype_of(slice.weight.scalar_type()),
                                 std::as_writable_bytes(std::span(static_cast<char*>(slice.weight.data_ptr()),
                                                                  slice.weight.nbytes()))));
  loaded.model =
      std::make_unique<Transformer>(loaded.spec.model,
                                    *loaded.parameters,
                                    TransformerOptions{.max_positions = loaded.spec.data.seq_length});
  return loaded;
}

std::shared_ptr<const Tokenizer> tokenizer_for(const LoadedModel& model,
                                               const std::string& step_dir,
                                               const std::string& path) {
  if (!path.empty()) return value_or_throw(load_tokenizer(path));
  const std::string& trained_with = model.spec.data.tokenizer;
  if (trained_with.empty())
    throw ErrorException(
        {ErrorCode::kUsage,
         fmt::format("{} was trained without a tokenizer (data.tokenizer is empty)", step_dir),
         "name one with --tokenizer"});
  return value_or_throw(
      load_tokenizer(trained_with == "bytes" ? trained_with : step_dir + "/tokenizer.json"));
}

}  // namespace llmtrain
