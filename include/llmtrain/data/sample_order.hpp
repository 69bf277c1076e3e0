#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llmtrain/core/result.hpp"
#include "llmtrain/data/blend.hpp"

// The order of training samples as a pure function: global sample index g -> (source, epoch, sample).
//
// Nothing is built, shuffled or stored; the only state of a run is g. Within a source every epoch
// holds each sample once, in another order each time. The order depends on the sources (sizes,
// weights, caps, their position in the list) and the seed, never on ranks, batches or restarts.
namespace llmtrain {

// Samples of `seq_length` inputs and their labels in a stream: neighbours share one token.
constexpr std::int64_t num_samples(std::int64_t num_tokens, std::int64_t seq_length) {
  return num_tokens > seq_length ? (num_tokens - 1) / seq_length : 0;
}

struct SourceShape {
  std::string name;  // for messages
  std::int64_t num_samples = 0;
  double weight = 1.0;
  std::optional<double> max_epochs;  // fractions of an epoch round down to whole samples
};

struct SampleRef {
  int source = 0;
  std::int64_t epoch = 0;
  std::int64_t sample = 0;  // within the source

  friend bool operator==(const SampleRef&, const SampleRef&) = default;
};

class SampleOrder {
 public:
  enum class Kind { kShuffled, kSequential };  // sequential: sample numbers rise, for evaluation

  static Result<SampleOrder> make(std::vector<SourceShape> sources, std::uint64_t seed, Kind kind);

  // Absent when the order never ends.
  std::optional<std::int64_t> size() const { return blend_.size(); }
  SampleRef at(std::int64_t index) const;

 private:
  explicit SampleOrder(Blend blend) : blend_(std::move(blend)) {}

  Blend blend_;
  std::vector<std::int64_t> num_samples_;
  std::uint64_t seed_ = 0;
  Kind kind_ = Kind::kShuffled;
};

}  // namespace llmtrain
