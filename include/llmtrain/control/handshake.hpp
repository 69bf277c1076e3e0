#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// Both sides of a new connection prove that they know the run's token, without sending it.
//
//   client  'H' "LLMT" version(2) nonce(32)
//   server  'C' version(2) nonce(32)
//   client  'P' HMAC-SHA256(token, "client" | client nonce | server nonce)
//   server  'A' HMAC-SHA256(token, "server" | client nonce | server nonce)
// Either side may answer 'R' and a text in place of its frame. It guards against strangers and against the
// agents of another run; it neither hides nor signs what is sent afterwards.
namespace llmtrain {

inline constexpr std::uint16_t kProtocolVersion = 1;

std::string hmac_sha256(std::string_view key, std::string_view text);
std::string random_bytes(std::size_t count);

class Handshake {
 public:
  enum class Side { kClient, kServer };
  Handshake(Side side,
            std::string token,
            std::string nonce = random_bytes(32),
            std::uint16_t version = kProtocolVersion);

  std::optional<std::string> first() const;  // the frame to begin with: a client's
  // Answers a frame: what to send back, if anything. After an error `parting()` is to be sent, then hung up.
  Result<std::optional<std::string>> take(std::string_view frame);
  bool done() const { return done_; }
  // Set by an error: what the other side is told; absent: nothing, it is no agent.
  const std::optional<std::string>& parting() const { return parting_; }
  // The error is the other side's refusal or lack of the token: trying again would end the same way.
  bool refused() const { return refused_; }

 private:
  Result<std::optional<std::string>> take_hello(std::string_view body);
  Result<std::optional<std::string>> take_challenge(std::string_view body);
  Result<std::optional<std::string>> take_proof(std::string_view body);
  Result<std::optional<std::string>> take_accept(std::string_view body);
  Error refuse(std::string text);
  std::string proof(std::string_view role) const;

  Side side_;
  std::string token_, mine_, theirs_;
  std::uint16_t version_;
  int turn_ = 0;
  bool done_ = false, refused_ = false;
  std::optional<std::string> parting_;
};

}  // namespace llmtrain
