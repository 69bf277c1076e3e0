#include "llmtrain/logs/log_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

namespace llmtrain {
namespace {

UniqueFd open_piece(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644));
}

std::string piece_path(const std::string& path, int piece) {
  return piece == 0 ? path : fmt::format("{}.{}", path, piece);
}

}  // namespace

bool LogFile::open() {
  if (file_.valid()) return true;
  file_ = open_piece(path_);
  if (!file_.valid() && errno == ENOENT) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
    file_ = open_piece(path_);
  }
  if (!file_.valid()) error_ = errno;
  return file_.valid();
}

void LogFile::write(std::string_view bytes) {
  if (!open()) return lose(bytes);
  if (gap_.open()) {
    bytes = gap_.whole_lines_of(bytes);
    LineGap closing = gap_;
    const std::uint64_t lines = closing.lines();
    const std::string notice = closing.close(std::strerror(error_), mid_line_);
    if (bytes.empty() || put(notice) < notice.size()) return lose(bytes);
    lost_ += lines - reported_;
    reported_ = 0;
    gap_ = closing;
  }
  lose(bytes.substr(put(bytes)));
}

void LogFile::lose(std::string_view bytes) {
  gap_.lose(bytes);
}

LogFile::Lost LogFile::take_lost() {
  const Lost lost{std::exchange(lost_, 0) + gap_.lines() - reported_, error_};
  reported_ = gap_.lines();
  return lost;
}

std::size_t LogFile::put(std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const std::string_view left = bytes.substr(done);
    if (max_bytes_ > 0 && in_piece_ >= max_bytes_) rotate();
    const std::uint64_t room = max_bytes_ > 0 ? max_bytes_ - in_piece_ : left.size();
    std::string_view part = left.substr(0, room);
    if (part.size() < left.size() && in_piece_ > 0 && !mid_line_ &&
        part.find('\n') == std::string_view::npos) {
      rotate();
      continue;
    }
    // Pieces end with a line where one ends in the last part of them.
    if (const std::size_t newline = part.rfind('\n');
        part.size() < left.size() && newline != std::string_view::npos && newline + 1 >= part.size() / 2)
      part = part.substr(0, newline + 1);
    const ssize_t written = ::write(file_.get(), part.data(), part.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      error_ = errno;
      return done;
    }
    const bool cut_short =
        static_cast<std::size_t>(written) == part.size() && part.size() < room && part.size() < left.size();
    in_piece_ = cut_short ? max_bytes_ : in_piece_ + static_cast<std::uint64_t>(written);
    mid_line_ = part[static_cast<std::size_t>(written) - 1] != '\n';
    done += static_cast<std::size_t>(written);
  }
  return done;
}

void LogFile::rotate() {
  UniqueFd next = open_piece(piece_path(path_, piece_ + 1));
  in_piece_ = 0;  // where no new piece can be made, the old one goes on
  if (!next.valid()) return;
  file_ = std::move(next);
  ++piece_;
  const int oldest = piece_ - std::max(1, keep_);
  if (oldest >= 1) ::unlink(piece_path(path_, oldest).c_str());
}

}  // namespace llmtrain
