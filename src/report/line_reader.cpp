#include "llmtrain/report/line_reader.hpp"

#include <span>

namespace llmtrain {
namespace {

constexpr std::size_t kChunk = 256 * 1024;
constexpr std::size_t kMaxLine = 1 << 20;

}  // namespace

Result<LineReader> LineReader::open(FileSystem& files, const std::string& path, std::uint64_t from) {
  LineReader reader;
  LLMTRAIN_ASSIGN(info, files.info(path));
  if (!info) return reader;
  LLMTRAIN_ASSIGN(file, files.open(path));
  reader.file_ = std::move(file);
  // The byte before decides whether `from` is the start of a line.
  reader.offset_ = from == 0 ? 0 : from - 1;
  reader.skipping_ = from != 0;
  return reader;
}

bool LineReader::fill() {
  if (end_ || !file_) return false;
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t held = buffer_.size();
  buffer_.resize(held + kChunk);
  const auto got = file_->read_at(offset_, std::as_writable_bytes(std::span(buffer_).subspan(held)));
  if (!got) problem_ = got.error().message;
  const std::size_t bytes = got ? *got : 0;
  buffer_.resize(held + bytes);
  offset_ += bytes;
  end_ = bytes == 0;
  return !end_;
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = begin_;
  while (true) {
    const std::size_t newline = buffer_.find('\n', searched);
    if (newline != std::string::npos) {
      line = std::string_view(buffer_).substr(begin_, newline - begin_);
      begin_ = newline + 1;
      searched = begin_;
      if (!std::exchange(skipping_, false)) return true;
      continue;
    }
    if (skipping_) {
      begin_ = buffer_.size();
    } else if (buffer_.size() - begin_ > kMaxLine) {
      ++too_long_;
      skipping_ = true;
      begin_ = buffer_.size();
    }
    searched = buffer_.size() - begin_;  // where the new bytes will begin
    if (!fill()) {
      torn_ = torn_ || begin_ < buffer_.size();
      return false;
    }
  }
}

}  // namespace llmtrain
