#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "llmtrain/core/result.hpp"

// What a worker asks its agent's key-value store, and the answers: one packet each, matched by `id`.
//
// Bytes are little endian and strict: a packet is exactly one message, and every length has a limit. It
// knows neither sockets nor what keys mean. Keys live for one incarnation of the workers.
namespace llmtrain {

struct StoreLimits {
  static constexpr std::size_t kKey = 512;
  static constexpr std::size_t kValue = 64 * 1024;
  static constexpr std::size_t kPacket = 32 + kKey + kValue;  // no message is longer
};

struct StoreRequest {
  enum class Op : std::uint8_t { kSet = 1, kGet = 2 };
  Op op = Op::kGet;
  std::uint32_t id = 0;
  std::string key;
  std::string value;             // of a set
  std::uint32_t timeout_ms = 0;  // of a get: how long the agent waits for the key

  friend bool operator==(const StoreRequest&, const StoreRequest&) = default;
};

struct StoreReply {
  std::uint32_t id = 0;
  std::optional<std::string> value;  // nothing: the key did not come in time. A set is answered with ""

  friend bool operator==(const StoreReply&, const StoreReply&) = default;
};

// Key and value must be within StoreLimits: longer ones are broken invariants.
std::string encode(const StoreRequest& request);
std::string encode(const StoreReply& reply);

Result<StoreRequest> decode_store_request(std::string_view packet);
Result<StoreReply> decode_store_reply(std::string_view packet);

}  // namespace llmtrain
