#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "llmtrain/control/store_wire.hpp"

// Any bytes as a packet between worker and agent: no crash, and what is accepted is what its encoding reads
// as.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view packet(reinterpret_cast<const char*>(data), size);
  if (const auto request = llmtrain::decode_store_request(packet)) {
    if (llmtrain::encode(*request) != packet) std::abort();
  } else if (request.error().message.empty()) {
    std::abort();
  }
  if (const auto reply = llmtrain::decode_store_reply(packet))
    if (llmtrain::encode(*reply) != packet) std::abort();
  return 0;
}
