#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llmtrain/monitor/console_sink.hpp"
#include "llmtrain/monitor/event_text.hpp"
#include "llmtrain/monitor/events.hpp"

// Any bytes as a worker's message: no crash, what is accepted survives being written and read, and nothing in
// it reaches a plain console but printable text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto event = llmtrain::event_from_json(std::string(reinterpret_cast<const char*>(data), size));
  if (!event) {
    if (event.error().message.empty()) std::abort();
    return 0;
  }
  const std::string line = llmtrain::to_json_line(*event);
  const auto again = llmtrain::event_from_json(line);
  if (!again || llmtrain::to_json_line(*again) != line) std::abort();
  if (line.find('\n') != std::string::npos) std::abort();

  std::string plain;
  for (const bool terminal : {true, false}) {
    plain.clear();
    llmtrain::ConsoleSink sink({.terminal = terminal, .log_interval = 1, .width = {}},
                               [&](std::string_view text) { plain += text; });
    sink.on(*event);
    sink.on(*event);
  }
  for (const char c : plain)
    if (c != '\n' && (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)) std::abort();
  return 0;
}
