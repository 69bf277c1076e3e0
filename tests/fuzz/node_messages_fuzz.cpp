#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/launch/node_messages.hpp"

// Any bytes as a message between agents: no crash, and what is accepted survives being written and read.
namespace {

template <class Message>
void check(const llmtrain::Result<Message>& message, llmtrain::Result<Message> (*read)(const std::string&)) {
  if (!message) {
    if (message.error().message.empty()) std::abort();
    return;
  }
  const std::string text = to_json(*message);
  const auto again = read(text);
  if (!again || to_json(*again) != text) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check(llmtrain::order_from_json(text), llmtrain::order_from_json);
  check(llmtrain::report_from_json(text), llmtrain::report_from_json);
  return 0;
}
