#include "memory_map.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace llmtrain {
namespace {

std::uint64_t take_hex(std::string_view& text) {
  std::uint64_t value = 0;
  while (!text.empty()) {
    const char c = text.front();
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) break;
    value = value << 4 | static_cast<std::uint64_t>(digit);
    text.remove_prefix(1);
  }
  return value;
}

// Where the file of the current line begins in memory: its parts follow each other in the map.
struct Loaded {
  std::array<char, 256> path{};
  std::size_t size = 0;
  std::uint64_t base = 0;
};

// "55d0-55f0 r-xp 00002000 08:01 1234   /path": the fields before the path hold no slash.
void read_line(std::string_view line, Loaded& loaded, CodePlace* places, std::size_t count) {
  const std::size_t slash = line.find('/');
  if (slash == std::string_view::npos) return;
  std::string_view fields = line;
  const std::uint64_t begin = take_hex(fields);
  fields.remove_prefix(fields.empty() ? 0 : 1);
  const std::uint64_t end = take_hex(fields);
  std::string_view path = line.substr(slash);
  if (path.size() >= loaded.path.size()) path = path.substr(path.size() - loaded.path.size() + 1);
  if (path != std::string_view(loaded.path.data(), loaded.size)) {
    std::memcpy(loaded.path.data(), path.data(), path.size());
    loaded.path[path.size()] = '\0';
    loaded.size = path.size();
    loaded.base = begin;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (places[i].address < begin || places[i].address >= end) continue;
    places[i].offset = places[i].address - loaded.base;
    std::memcpy(places[i].module.data(), loaded.path.data(), loaded.size + 1);
  }
}

}  // namespace

void find_modules(CodePlace* places, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) places[i].offset = places[i].address;
  const int fd = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  Loaded loaded;
  std::array<char, 4096> buffer;
  std::size_t held = 0;
  while (true) {
    const ssize_t n = ::read(fd, buffer.data() + held, buffer.size() - held);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    held += static_cast<std::size_t>(n);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < held; ++at) {
      if (buffer[at] != '\n') continue;
      read_line({buffer.data() + begin, at - begin}, loaded, places, count);
      begin = at + 1;
    }
    if (begin == 0 && held == buffer.size()) begin = held;  // a line that is no path of ours
    std::memmove(buffer.data(), buffer.data() + begin, held - begin);
    held -= begin;
  }
  ::close(fd);
}

}  // namespace llmtrain
