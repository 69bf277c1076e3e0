#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "llmtrain/control/node_identity.hpp"
#include "llmtrain/core/result.hpp"

// What agents say to each other once both have proved that they know the token. Every message carries its
// epoch.
namespace llmtrain {

// kRetry: the reason will go away. kRetryBriefly: it may, within two silence limits; then it is final. So it
// is when a directory is shared by a slow file system, or a process died of which the leader has not heard.
enum class RefusalKind : std::uint8_t { kFinal = 0, kRetry = 1, kRetryBriefly = 2 };

struct JoinMessage {  // epoch: the newest that the joiner sees in the run directory
  NodeIdentity identity;
  std::string instance;  // 16 random bytes of this process: the same one returns, or another one comes
  std::string nonce;     // of the epoch file that it sees; empty: none
};
struct WelcomeMessage {
  int node = -1;  // -1: waits as a spare
  int leader_node = 0;
  std::string leader_host;
};
struct RefuseMessage {
  RefusalKind kind = RefusalKind::kFinal;
  ErrorCode code = ErrorCode::kUsage;
  std::string text;
};
struct HeartbeatMessage {};
struct PayloadMessage {
  std::string payload;
};
struct EndMessage {};  // of a leader: the job is over; of a member: it leaves in good order

using MessageBody =
    std::variant<JoinMessage, WelcomeMessage, RefuseMessage, HeartbeatMessage, PayloadMessage, EndMessage>;
struct Message {
  std::int64_t epoch = 0;
  MessageBody body;
};

std::string encode(const Message& message);
Result<Message> decode_message(std::string_view bytes);  // strict: nothing missing, nothing left over

}  // namespace llmtrain
