#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/control/endpoint.hpp"
#include "llmtrain/control/frame.hpp"
#include "llmtrain/control/handshake.hpp"
#include "llmtrain/control/message.hpp"

// Any bytes from the network. The first byte chooses who reads them: the frames of a stream, then a handshake
// of either side, or messages; or an endpoint. Whatever is accepted is the same after it was written again,
// and a reader never holds more than it was given.
namespace {

using namespace llmtrain;

void read_messages(std::string_view bytes) {
  FrameReader reader(kFrameLimit);
  reader.append(bytes);
  while (true) {
    auto frame = reader.next();
    if (reader.buffered() > bytes.size()) std::abort();
    if (!frame || !*frame) return;
    const auto message = decode_message(**frame);
    if (message && encode(*message) != **frame) std::abort();
  }
}

void shake_hands(Handshake::Side side, std::string_view bytes) {
  Handshake handshake(side, "token", std::string(32, 'n'));
  FrameReader reader(kFrameLimitBefore);
  reader.append(bytes);
  while (true) {
    auto frame = reader.next();
    if (!frame || !*frame) return;
    const auto answer = handshake.take(**frame);
    if (!answer || handshake.done()) break;
  }
  if (handshake.done()) std::abort();  // nobody guesses an HMAC
  if (handshake.parting() && handshake.parting()->size() > kFrameLimitBefore) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: read_messages(bytes); break;
    case 1: shake_hands(Handshake::Side::kServer, bytes); break;
    case 2: shake_hands(Handshake::Side::kClient, bytes); break;
    default:
      if (const auto endpoint = parse_endpoint(bytes)) {
        const auto again = parse_endpoint(to_string(*endpoint));
        if (!again || !(*again == *endpoint)) std::abort();
      }
  }
  return 0;
}
