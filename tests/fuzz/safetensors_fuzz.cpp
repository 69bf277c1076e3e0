#include <cstdint>
#include <cstdlib>

#include "llmtrain/checkpoint/safetensors.hpp"

using namespace llmtrain;

// Any bytes are a header or an error. What is accepted tiles the data: that is what reading relies on.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = parse_safetensors_header(bytes, size, "input");
  if (!header) return 0;
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    if (entry.begin != at || entry.end < entry.begin) std::abort();
    at = entry.end;
    if (header->find(entry.name) == nullptr) std::abort();
  }
  if (header->data_start + at != size) std::abort();
  // What we write of it is read back.
  std::vector<SafetensorsEntry> entries = header->entries;
  const auto text = make_safetensors_header(entries, header->metadata);
  if (!text) return 0;
  const auto again = parse_safetensors_header(std::as_bytes(std::span(*text)), text->size() + at, "written");
  if (!again || again->entries.size() != entries.size()) std::abort();
  return 0;
}
