#include "tensorboard_records.hpp"

#include <bit>
#include <span>

#include "llmtrain/core/crc32c.hpp"

namespace llmtrain {
namespace {

enum WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class Unsigned>
void put_fixed(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(value); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_tag(std::string& out, unsigned field, WireType type) {
  put_varint(out, field << 3 | type);
}

void put_double(std::string& out, unsigned field, double value) {
  put_tag(out, field, kFixed64);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}

void put_float(std::string& out, unsigned field, float value) {
  put_tag(out, field, kFixed32);
  put_fixed(out, std::bit_cast<std::uint32_t>(value));
}

// A negative int64 takes ten bytes, as protobuf wants it.
void put_int64(std::string& out, unsigned field, std::int64_t value) {
  put_tag(out, field, kVarint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_tag(out, field, kBytes);
  put_varint(out, value.size());
  out += value;
}

std::uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u;
}

}  // namespace

std::string tfrecord(std::string_view data) {
  std::string record;
  put_fixed<std::uint64_t>(record, data.size());
  put_fixed(record, masked_crc(record));
  record += data;
  put_fixed(record, masked_crc(data));
  return record;
}

std::string version_event(double time) {
  std::string event;
  put_double(event, 1, time);
  put_bytes(event, 3, "brain.Event:2");
  return event;
}

std::string scalars_event(double time,
                          std::int64_t step,
                          const std::vector<std::pair<std::string_view, float>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    std::string entry;
    put_bytes(entry, 1, tag);
    put_float(entry, 2, value);
    put_bytes(summary, 1, entry);
  }
  std::string event;
  put_double(event, 1, time);
  put_int64(event, 2, step);
  put_bytes(event, 5, summary);
  return event;
}

std::string restart_event(double time, std::int64_t step) {
  std::string session;
  put_int64(session, 1, 1);  // SessionStatus START
  std::string event;
  put_double(event, 1, time);
  put_int64(event, 2, step);
  put_bytes(event, 7, session);
  return event;
}

}  // namespace llmtrain
