#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "llmtrain/discovery/hostlist.hpp"

// Any bytes as a host list: no crash, bounded names of a few characters, and a name is a list of itself.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(llmtrain::parse_node_order(text, "fuzz"));
  const auto names = llmtrain::expand_hostlist(text);
  if (!names) {
    if (names.error().message.empty()) std::abort();
    return 0;
  }
  if (names->empty() || names->size() > llmtrain::kMaxHosts) std::abort();
  for (const std::string& name : *names) {
    if (name.empty() || name.size() > llmtrain::kMaxHostNameBytes) std::abort();
    if (name.find_first_of("[], \n") != std::string::npos) std::abort();
  }
  const auto again = llmtrain::expand_hostlist(names->front());
  if (!again || again->size() != 1 || again->front() != names->front()) std::abort();
  return 0;
}
