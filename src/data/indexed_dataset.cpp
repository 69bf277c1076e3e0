#include "llmtrain/data/indexed_dataset.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "llmtrain/core/check.hpp"
#include "llmtrain/data/hash.hpp"
#include "llmtrain/data/index_format.hpp"

namespace llmtrain {
namespace {

using index_format::kHeaderBytes;

// The arrays begin at byte 34 and are not aligned: every value is copied out.
template <class T>
T load(const MappedFile& file, std::int64_t offset) {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof value);
  return value;
}

Error damaged(const std::string& path, std::int64_t offset, const std::string& what) {
  return {ErrorCode::kData,
          fmt::format("{}: byte {}: {}", path, offset, what),
          "the file is damaged or foreign; write it again with `llmtrain data prepare`"};
}

template <class T>
void widen(const unsigned char* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = static_cast<std::int32_t>(value);
  }
}

// Eight-byte ids are allowed when they fit; -1 stands for one that does not.
void narrow(const unsigned char* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int64_t value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    out[i] = value < 0 || value > INT32_MAX ? -1 : static_cast<std::int32_t>(value);
  }
}

}  // namespace

Result<IndexedDataset> IndexedDataset::open(const std::string& path, IndexCheck check) {
  IndexedDataset set;
  LLMTRAIN_ASSIGN(paths, find_dataset(path));
  LLMTRAIN_ASSIGN(idx, MappedFile::open(paths.idx()));
  LLMTRAIN_ASSIGN(bin, MappedFile::open(paths.bin()));
  set.paths_ = std::move(paths);
  set.idx_ = std::move(idx);
  set.bin_ = std::move(bin);
  LLMTRAIN_TRY(set.read_header());
  LLMTRAIN_TRY(set.check_size_equation());
  LLMTRAIN_TRY(set.check_borders(check));
  return set;
}

Status IndexedDataset::read_header() {
  const std::string path = paths_.idx();
  const auto bytes = idx_.bytes();
  if (bytes.empty()) return damaged(path, 0, "the file is empty");
  if (bytes.size() >= 8 && std::memcmp(bytes.data(), "TNTIDX\0\0", 8) == 0) {
    return Error{ErrorCode::kData,
                 fmt::format("{}: byte 0: magic TNTIDX is the old cached/lazy format of Megatron", path),
                 "convert it with Megatron's tools, or prepare the text again with `llmtrain data prepare`"};
  }
  if (bytes.size() < 9 || std::memcmp(bytes.data(), index_format::kMagic.data(), 9) != 0) {
    return damaged(path, 0, "the magic bytes are not MMIDIDX: this is no Megatron index");
  }
  if (idx_.size() < kHeaderBytes) {
    return damaged(
        path, idx_.size(), fmt::format("the file ends inside its header of {} bytes", kHeaderBytes));
  }
  const auto version = load<std::uint64_t>(idx_, 9);
  if (version != 1) return damaged(path, 9, fmt::format("version {}; only version 1 is known", version));
  const auto code = load<std::uint8_t>(idx_, 17);
  LLMTRAIN_ASSIGN(type, index_format::token_type(code, path));
  type_ = type;
  return ok_status();
}

// The two counts of the header, against the sizes of both files. The first bound keeps the sum small.
Status IndexedDataset::check_size_equation() {
  const std::string path = paths_.idx();
  const auto sequences = load<std::uint64_t>(idx_, 18);
  const auto entries = load<std::uint64_t>(idx_, 26);
  const auto size = static_cast<std::uint64_t>(idx_.size());
  if (sequences > size / 12) {
    return damaged(path, 18, fmt::format("{} sequences cannot fit in {} bytes", sequences, size));
  }
  if (entries > size / 8 || entries < 1) {
    return damaged(path, 26, fmt::format("{} document entries; allowed are 1 to {}", entries, size / 8));
  }
  const std::uint64_t expected = kHeaderBytes + 12 * sequences + 8 * entries;
  has_modes_ = sequences > 0 && size == expected + sequences;
  if (size != expected && !has_modes_) {
    return damaged(path,
                   18,
                   fmt::format("{} sequences and {} document entries make {} bytes, but the file has {}",
                               sequences,
                               entries,
                               expected,
                               size));
  }
  num_sequences_ = static_cast<std::int64_t>(sequences);
  num_documents_ = static_cast<std::int64_t>(entries) - 1;
  if (sequences > 0) {
    const std::int64_t last = num_sequences_ - 1;
    LLMTRAIN_TRY(check_sequences(last, last));  // its own length and offset
    num_tokens_ = sequence_begin(last) + sequence_length(last);
  }
  if (num_tokens_ * bytes_of(type_) != bin_.size()) {
    return Error{
        ErrorCode::kData,
        fmt::format("{}: has {} bytes; {} states {} tokens of {} bytes = {}",
                    paths_.bin(),
                    bin_.size(),
                    path,
                    num_tokens_,
                    bytes_of(type_),
                    num_tokens_ * bytes_of(type_)),
        "the pair is truncated, still being written, or does not belong together; copy or prepare it again"};
  }
  if (num_tokens_ == 0) {
    return Error{
        ErrorCode::kData, fmt::format("{}: holds no tokens", paths_.prefix), "give a corpus with text in it"};
  }
  return ok_status();
}

Status IndexedDataset::check_borders(IndexCheck check) const {
  constexpr std::int64_t kAllUpTo = 16 << 20;
  constexpr std::int64_t kRun = 1 << 12;
  constexpr std::int64_t kRuns = 2048;
  const auto sweep = [check](std::int64_t count, const auto& check_range) -> Status {
    if (check == IndexCheck::kFull || count <= kAllUpTo) return check_range(0, count);
    for (std::int64_t run = 0; run <= kRuns; ++run) {
      const std::int64_t begin = (count - kRun) / kRuns * run;
      LLMTRAIN_TRY(check_range(begin, begin + kRun));
    }
    return check_range(count - kRun, count);
  };
  const std::string path = paths_.idx();
  const std::int64_t documents = kHeaderBytes + 12 * num_sequences_;
  if (document_entry(0) != 0) {
    return damaged(path, documents, fmt::format("the document index starts at {}, not 0", document_entry(0)));
  }
  if (document_entry(num_documents_) != num_sequences_) {
    return damaged(path,
                   documents + 8 * num_documents_,
                   fmt::format("the document index ends at {}, not at the {} sequences",
                               document_entry(num_documents_),
                               num_sequences_));
  }
  LLMTRAIN_TRY(sweep(num_sequences_, [this](auto begin, auto end) { return check_sequences(begin, end); }));
  return sweep(num_documents_, [this](auto begin, auto end) { return check_documents(begin, end); });
}

// Each sequence of [begin, end] begins where the one before ends; `end` itself needs a valid own border.
Status IndexedDataset::check_sequences(std::int64_t begin, std::int64_t end) const {
  const std::string path = paths_.idx();
  const std::int64_t width = bytes_of(type_);
  for (std::int64_t i = begin; i < std::min(end + 1, num_sequences_); ++i) {
    const std::int64_t pointer_at = kHeaderBytes + 4 * num_sequences_ + 8 * i;
    const auto length = load<std::int32_t>(idx_, kHeaderBytes + 4 * i);
    const auto pointer = load<std::int64_t>(idx_, pointer_at);
    if (length < 0) {
      return damaged(path, kHeaderBytes + 4 * i, fmt::format("sequence {} has length {}", i, length));
    }
    if (pointer < 0 || pointer % width != 0 || pointer > bin_.size() - length * width) {
      return Error{
          ErrorCode::kData,
          fmt::format("{}: byte {}: sequence {} of {} tokens begins at byte {} of {}, which has {} bytes",
                      path,
                      pointer_at,
                      i,
                      length,
                      pointer,
                      paths_.bin(),
                      bin_.size()),
          "the pair is truncated or does not belong together; copy or prepare it again"};
    }
    const std::int64_t expected = i == 0 ? 0
                                         : load<std::int64_t>(idx_, pointer_at - 8) +
                                               load<std::int32_t>(idx_, kHeaderBytes + 4 * (i - 1)) * width;
    if ((i == 0 || i > begin) && pointer != expected) {
      return damaged(
          path,
          pointer_at,
          fmt::format(
              "sequence {} begins at byte {}, not at {} where the one before ends", i, pointer, expected));
    }
  }
  return ok_status();
}

Status IndexedDataset::check_documents(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t here = document_entry(i);
    const std::int64_t next = document_entry(i + 1);
    if (here < 0 || next < here || next > num_sequences_) {
      return damaged(
          paths_.idx(),
          kHeaderBytes + 12 * num_sequences_ + 8 * (i + 1),
          fmt::format("document {} spans sequences {} to {} of {}", i, here, next, num_sequences_));
    }
  }
  return ok_status();
}

std::int64_t IndexedDataset::document_entry(std::int64_t index) const {
  return load<std::int64_t>(idx_, kHeaderBytes + 12 * num_sequences_ + 8 * index);
}

std::int64_t IndexedDataset::document_begin(std::int64_t document) const {
  LLMTRAIN_CHECK(0 <= document && document <= num_documents_, "document {} of {}", document, num_documents_);
  const std::int64_t sequence = document_entry(document);
  return sequence >= num_sequences_ ? num_tokens_ : sequence_begin(std::max<std::int64_t>(sequence, 0));
}

std::int32_t IndexedDataset::sequence_length(std::int64_t sequence) const {
  LLMTRAIN_CHECK(0 <= sequence && sequence < num_sequences_, "sequence {} of {}", sequence, num_sequences_);
  return load<std::int32_t>(idx_, kHeaderBytes + 4 * sequence);
}

std::int64_t IndexedDataset::sequence_begin(std::int64_t sequence) const {
  LLMTRAIN_CHECK(0 <= sequence && sequence < num_sequences_, "sequence {} of {}", sequence, num_sequences_);
  return load<std::int64_t>(idx_, kHeaderBytes + 4 * num_sequences_ + 8 * sequence) / bytes_of(type_);
}

Status IndexedDataset::read(std::int64_t offset, std::span<std::int32_t> out) const {
  LLMTRAIN_CHECK(offset >= 0 && offset <= num_tokens_ - std::ssize(out),
                 "tokens [{}, {}) of {}",
                 offset,
                 offset + std::ssize(out),
                 num_tokens_);
  LLMTRAIN_TRY(bin_.check_size());
  const std::int64_t width = bytes_of(type_);
  bin_.will_need(offset * width, std::ssize(out) * width);
  const unsigned char* from = bin_.bytes().data() + offset * width;
  switch (type_) {
    case TokenType::kUint8: widen<std::uint8_t>(from, out); break;
    case TokenType::kInt8: widen<std::int8_t>(from, out); break;
    case TokenType::kInt16: widen<std::int16_t>(from, out); break;
    case TokenType::kInt32: widen<std::int32_t>(from, out); break;
    case TokenType::kUint16: widen<std::uint16_t>(from, out); break;
    case TokenType::kInt64: narrow(from, out); break;
  }
  return ok_status();
}

// Both sizes, the first and last 4 KiB and 62 blocks between, of either file.
std::uint64_t IndexedDataset::fingerprint() const {
  constexpr std::int64_t kBlock = 4096;
  constexpr std::int64_t kBlocks = 63;
  std::uint64_t hash = 0;
  for (const MappedFile* file : {&idx_, &bin_}) {
    hash = combine64(hash, static_cast<std::uint64_t>(file->size()));
    if (!file->check_size()) continue;
    const std::int64_t length = std::min(kBlock, file->size());
    const std::int64_t room = file->size() - length;
    for (std::int64_t i = 0; i <= kBlocks; ++i) {
      const std::int64_t begin = room / kBlocks * i + (i == kBlocks ? room % kBlocks : 0);
      hash = hash_bytes(
          file->bytes().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(length)), hash);
    }
  }
  return hash;
}

}  // namespace llmtrain
