#include "progress_line.hpp"

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include <fmt/format.h>

namespace llmtrain::cli {

ProgressLine::ProgressLine(std::string what)
    : what_(std::move(what)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

ProgressLine::~ProgressLine() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::show(std::int64_t done, std::int64_t total, const char* unit) {
  constexpr int kWidth = 30;
  const auto now = std::chrono::steady_clock::now();
  if (!terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  drawn_ = true;
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = share > 0 ? elapsed / share - elapsed : 0;
  const auto full = static_cast<std::size_t>(share * kWidth);
  fmt::print(stderr,
             "\r\x1b[K{} [{}{}] {:3.0f} % of {} {}, {:.0f} s left",
             what_,
             std::string(full, '#'),
             std::string(kWidth - full, '.'),
             share * 100,
             total,
             unit,
             left);
  std::fflush(stderr);
}

}  // namespace llmtrain::cli
