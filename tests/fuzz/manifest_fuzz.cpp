#include <cstdint>
#include <cstdlib>

#include <fmt/format.h>

#include "llmtrain/checkpoint/manifest.hpp"
#include "llmtrain/core/crc32c.hpp"

using namespace llmtrain;

// Any bytes are a manifest, file records, or an error. The input is also tried with a checksum that fits, so
// that the fuzzer gets behind it; the corpus holds manifests without their last two lines.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)decode_manifest(text, "input");
  (void)decode_file_records(text, "input");
  const std::string sealed =
      text + fmt::format(" \"crc32c\": \"{:08x}\"\n}}\n", crc32c(std::as_bytes(std::span(text))));
  if (check_manifest_bytes(sealed).damaged) std::abort();
  const auto manifest = decode_manifest(sealed, "input");
  if (!manifest) return 0;
  if (!manifest->tensors()) std::abort();
  const std::string written = encode_manifest(*manifest);
  const auto again = decode_manifest(written, "written");
  if (!again || encode_manifest(*again) != written) std::abort();
  return 0;
}
