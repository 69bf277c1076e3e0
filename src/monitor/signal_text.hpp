#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <unistd.h>

// One line of text made inside a signal handler: no memory, no locks, cut where it is full.
namespace llmtrain {

class SignalText {
 public:
  SignalText& operator<<(std::string_view text) {
    const std::size_t size = text.size() < room() ? text.size() : room();
    std::memcpy(bytes_.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  SignalText& operator<<(std::int64_t number) {
    if (number < 0) *this << "-";
    return digits(number < 0 ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number),
                  10);
  }
  SignalText& hex(std::uint64_t number) {
    *this << "0x";
    return digits(number, 16);
  }
  // Writes what there is and begins anew.
  void flush() {
    for (std::size_t done = 0; done < size_;) {
      const ssize_t n = ::write(STDERR_FILENO, bytes_.data() + done, size_ - done);
      if (n <= 0) break;  // nobody can be told
      done += static_cast<std::size_t>(n);
    }
    size_ = 0;
  }
  void end_line() {
    if (room() == 0) --size_;
    *this << "\n";
    flush();
  }

 private:
  std::size_t room() const { return bytes_.size() - size_; }
  SignalText& digits(std::uint64_t number, unsigned base) {
    std::array<char, 24> text{};
    std::size_t at = text.size();
    do {
      text[--at] = "0123456789abcdef"[number % base];
      number /= base;
    } while (number != 0);
    return *this << std::string_view(text.data() + at, text.size() - at);
  }

  std::array<char, 1024> bytes_{};
  std::size_t size_ = 0;
};

}  // namespace llmtrain
