#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llmtrain/data/indexed_dataset.hpp"

// Any bytes as a .idx, beside any bytes as a .bin: the reader refuses them, or every document and every
// token that it states can be read. The first two bytes of the input tell where the index ends.
namespace {

using namespace llmtrain;

void write_file(const std::string& path, const std::uint8_t* data, std::size_t size) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || ::write(fd, data, size) != static_cast<ssize_t>(size)) std::abort();
  ::close(fd);
}

const std::string& directory() {
  static const std::string path = [] {
    std::string pattern = "/tmp/llmtrain-idx-fuzz-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    return pattern;
  }();
  return path;
}

void read_everything(const IndexedDataset& set) {
  std::int64_t before = 0;
  for (std::int64_t d = 0; d <= set.num_documents(); ++d) {
    const std::int64_t begin = set.document_begin(d);
    if (begin < before || begin > set.num_tokens()) std::abort();
    before = begin;
  }
  if (before != set.num_tokens()) std::abort();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(set.num_tokens()));
  if (!set.read(0, ids)) std::abort();
  if (document_at(set, set.num_tokens() - 1) >= set.num_documents()) std::abort();
  set.fingerprint();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  std::uint16_t cut = 0;
  std::memcpy(&cut, data, 2);
  const std::size_t idx_size = std::min<std::size_t>(cut, size - 2);
  const std::string prefix = directory() + "/a";
  write_file(prefix + ".idx", data + 2, idx_size);
  write_file(prefix + ".bin", data + 2 + idx_size, size - 2 - idx_size);
  const auto set = IndexedDataset::open(prefix, IndexCheck::kFull);
  if (set) read_everything(*set);
  if (!set && set.error().message.empty()) std::abort();
  return 0;
}
