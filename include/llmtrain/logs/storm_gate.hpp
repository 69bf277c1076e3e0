#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

// How many bytes of a worker's output are kept when there is no end to it: a token bucket.
//
// A worker that writes without end must neither fill the disk nor keep its agent busy. Pure: time is an
// argument. Once it has had to drop something it stays closed until a second's worth has come together, so
// that readable stretches are kept and not the first bytes of every line. What is dropped is counted, and
// said at most once a second.
namespace llmtrain {

struct StormLimits {
  std::uint64_t bytes_per_second = 1 << 20;
  std::uint64_t burst = 8 << 20;  // after a quiet time, at once
};

class StormGate {
 public:
  using Instant = std::chrono::milliseconds;

  explicit StormGate(StormLimits limits = {}) : limits_(limits), tokens_(static_cast<double>(limits.burst)) {}

  // How many of the `wanted` next bytes may be kept; the others count as dropped.
  std::uint64_t admit(Instant now, std::uint64_t wanted);
  // Bytes that were admitted and dropped all the same, for what is left of a cut line.
  void drop(std::uint64_t bytes);
  // Bytes dropped since the last time this said so, when a second has passed since then.
  std::optional<std::uint64_t> notice(Instant now);
  // What has been dropped and not said yet, at the end of the stream.
  std::optional<std::uint64_t> last_notice();
  // When notice() has something to say; absent: nothing was dropped.
  std::optional<Instant> deadline() const;
  std::uint64_t dropped() const { return dropped_; }

 private:
  StormLimits limits_;
  double tokens_;
  bool closed_ = false;
  std::optional<Instant> filled_;
  std::uint64_t dropped_ = 0;
  std::uint64_t unsaid_ = 0;
  std::optional<Instant> said_;
};

}  // namespace llmtrain
