#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The bytes of a TensorBoard event file: protobuf messages, written by hand, in TFRecord frames.
namespace llmtrain {

// A frame: length, masked CRC32C of the length, data, masked CRC32C of the data; little-endian.
std::string tfrecord(std::string_view data);

// Event {1: wall_time, 3: file_version}, the first record of every file.
std::string version_event(double time);

// Event {1: wall_time, 2: step, 5: Summary of (tag, value) pairs}.
std::string scalars_event(double time,
                          std::int64_t step,
                          const std::vector<std::pair<std::string_view, float>>& scalars);

// Event {1: wall_time, 2: step, 7: SessionLog START}: points of earlier files from `step` on are void.
std::string restart_event(double time, std::int64_t step);

}  // namespace llmtrain
