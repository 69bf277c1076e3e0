#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Names inside `checkpoints/`: the only place that writes or reads them.
namespace llmtrain {

// A committed checkpoint: "step-00000500", or "step-00000500.e3" when the plain name was taken.
std::string step_directory_name(std::int64_t step);
std::string step_directory_name(std::int64_t step, std::int64_t epoch);
// A save in progress: ".step-00000500.e3.tmp".
std::string temporary_directory_name(std::int64_t step, std::int64_t epoch);
// A checkpoint on its way out: ".trash-step-00000500".
std::string trash_directory_name(std::string_view name);

struct StepName {
  std::int64_t step = 0;
  std::optional<std::int64_t> epoch;  // absent: the plain name
};
std::optional<StepName> parse_step_name(std::string_view name);       // of a committed directory
std::optional<StepName> parse_temporary_name(std::string_view name);  // of a save in progress
bool is_trash_name(std::string_view name);

// "weights-00001-of-00004.safetensors"
std::string shard_file_name(std::string_view kind, int rank, int world_size);

}  // namespace llmtrain
