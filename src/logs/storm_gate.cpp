#include "llmtrain/logs/storm_gate.hpp"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr StormGate::Instant kNoticePeriod{1000};

}  // namespace

std::uint64_t StormGate::admit(Instant now, std::uint64_t wanted) {
  if (filled_ && now > *filled_)
    tokens_ = std::min(static_cast<double>(limits_.burst),
                       tokens_ + static_cast<double>((now - *filled_).count()) *
                                     static_cast<double>(limits_.bytes_per_second) / 1000);
  filled_ = std::max(filled_.value_or(now), now);
  if (closed_ && tokens_ >= static_cast<double>(std::min(limits_.burst, limits_.bytes_per_second)))
    closed_ = false;
  const std::uint64_t kept = closed_ ? 0 : std::min(wanted, static_cast<std::uint64_t>(tokens_));
  tokens_ -= static_cast<double>(kept);
  closed_ = closed_ || kept < wanted;
  if (kept < wanted && !said_) said_ = now;  // the first notice waits a second too
  drop(wanted - kept);
  return kept;
}

void StormGate::drop(std::uint64_t bytes) {
  dropped_ += bytes;
  unsaid_ += bytes;
}

std::optional<StormGate::Instant> StormGate::deadline() const {
  if (unsaid_ == 0) return std::nullopt;
  return said_.value_or(Instant{0}) + kNoticePeriod;
}

std::optional<std::uint64_t> StormGate::notice(Instant now) {
  if (unsaid_ == 0 || now < *deadline()) return std::nullopt;
  said_ = now;
  return last_notice();
}

std::optional<std::uint64_t> StormGate::last_notice() {
  if (unsaid_ == 0) return std::nullopt;
  const std::uint64_t bytes = unsaid_;
  unsaid_ = 0;
  return bytes;
}

}  // namespace llmtrain
